"""The cache by formula, and the bytes of the tensors that a cache holds."""

import pytest
import torch

from cost import deepseek
from mha import nn
from mha.cost import kv_cache_bytes, latent_cache_bytes, linear_state_bytes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_kv_cache_bytes_of_a_hugging_face_cache(dtype):
    from transformers import DynamicCache

    batch, heads, d_head, layers, n = 2, 3, 5, 7, 11
    cache = DynamicCache()
    for layer in range(layers):
        cache.update(*torch.zeros(2, batch, heads, n, d_head, dtype=dtype), layer)
    held = sum(x.nbytes for layer in cache.layers for x in (layer.keys, layer.values))
    assert kv_cache_bytes(n, heads, d_head, num_layers=layers, batch=batch, itemsize=dtype.itemsize) == held


def test_kv_cache_bytes_by_hand():
    """Llama 2 7B at its full length: 2 · 32 layers · 32 heads · 128 · 4096 positions · 2 bytes = 2 GiB."""
    assert kv_cache_bytes(4096, 32, 128, num_layers=32) == 2 * 2**30
    assert kv_cache_bytes(3, 5, 7, d_value=11) == 3 * 5 * (7 + 11) * 2
    assert kv_cache_bytes(0, 5, 7) == kv_cache_bytes(3, 5, 7, batch=0) == 0
    assert isinstance(kv_cache_bytes(2**40, 8, 128, num_layers=61, batch=2**20), int)


def test_latent_cache_bytes_by_hand():
    assert latent_cache_bytes(13, deepseek.latent(None), num_layers=3, batch=2) == 13 * (7 + 4) * 3 * 2 * 2


def test_linear_state_bytes_of_nn():
    q, k, v = (torch.ones(2, 3, 11, width) for width in (5, 5, 7))
    _, state = nn.linear_average(q, k, v)
    assert linear_state_bytes(3, 5, 7, batch=2) == state.nbytes
    assert linear_state_bytes(3, 5, 7, num_layers=13, itemsize=2) == 13 * 3 * 5 * (7 + 1) * 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": -1}, ValueError, "n is -1: expected at least 0"),
        ({"n": 1.0}, TypeError, r"n is 1\.0: expected an integer"),
        ({"num_kv_heads": 0}, ValueError, "num_kv_heads is 0: expected at least 1"),
        ({"d_head": 2.5}, TypeError, r"d_head is 2\.5: expected an integer"),
        ({"num_layers": 0}, ValueError, "num_layers is 0: expected at least 1"),
        ({"batch": -1}, ValueError, "batch is -1: expected at least 0"),
        ({"itemsize": 0}, ValueError, "itemsize is 0: expected at least 1"),
    ],
)
def test_sizes_are_counts(change, error, message):
    arguments = {"n": 3, "num_kv_heads": 5, "d_head": 7} | change
    with pytest.raises(error, match=message):
        kv_cache_bytes(**arguments)
