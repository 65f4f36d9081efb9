"""ALiBi's slopes for any number of heads, and its bias against BLOOM's attention."""

import numpy as np
import pytest
import torch
import transformers
from transformers.models.bloom.modeling_bloom import BloomAttention, _get_alibi_slopes, build_alibi_tensor

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.reference import alibi_bias, alibi_slopes, attention

BATCH, N, D = 2, 7, 5


@pytest.mark.parametrize("num_heads", [1, 2, 3, 5, 6, 8, 11, 12, 16, 23, 32, 71, 112])
def test_slopes_of_bloom(num_heads):
    assert_equal(alibi_slopes(num_heads), _get_alibi_slopes(num_heads, "cpu").double(), rtol=2.0**-18)


def test_slopes_by_hand():
    """TensorRT-LLM#1611, mlx#343: six heads are no geometric series."""
    assert_equal(alibi_slopes(6), [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8])
    assert_equal(alibi_slopes(12)[8:], 2 ** -np.array([0.5, 1.5, 2.5, 3.5]), rtol=1e-15)
    sentence_of_the_paper = 2 ** (-8 * np.arange(1, 13) / 12)
    assert np.abs(np.sort(alibi_slopes(12)) - np.sort(sentence_of_the_paper)).max() > 0.05


def bloom(num_heads, padding):
    """Return q, k, v of a layer of BLOOM, (batch, heads, n, width), and what its attention makes of them."""
    sizes = {"hidden_size": num_heads * D, "n_head": num_heads, "vocab_size": 11}
    config = transformers.BloomConfig(**sizes, attention_dropout=0.0, hidden_dropout=0.0)
    layer = redraw(BloomAttention(config, layer_idx=0), seed=3).double()
    layer.dense = torch.nn.Identity()
    x = torch.randn(BATCH, N, num_heads * D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    keep = torch.arange(N) >= torch.tensor(padding)[:, None]
    alibi = build_alibi_tensor(keep.long(), num_heads, torch.float64)
    hide = ~(keep[:, None, None] & torch.ones(N, N, dtype=torch.bool).tril())
    with torch.no_grad():
        parts = layer._reshape(layer.query_key_value(x))
        out = layer(x, torch.zeros_like(x), alibi, hide.double() * torch.finfo(torch.float64).min)[0]
    return *(part.numpy() for part in parts), np.moveaxis(out.numpy().reshape(BATCH, N, num_heads, D), 2, 1)


def bloom_from(num_heads, bias, padding=(0, 3)):
    """Return what ours makes of BLOOM's q, k and v with this bias, what theirs does, and which rows hold a token."""
    q, k, v, expected = bloom(num_heads, padding)
    keep = np.arange(N) >= np.array(padding)[:, None]
    found = attention(q, k, v, mask=masks.causal & masks.dense(keep[:, None, None]), bias=bias)
    return found, expected, np.broadcast_to(keep[:, None, :, None], found.shape)


@pytest.mark.parametrize("num_heads", [3, 4])
def test_equals_bloom(num_heads):
    """BLOOM adds slope · j, which differs from slope · (j − i) by a number that a row's softmax does not see."""
    places = np.arange(N) - np.array([[0], [3]])
    found, expected, rows = bloom_from(num_heads, alibi_bias(alibi_slopes(num_heads), places, places))
    assert_equal(found[rows], expected[rows], rtol=1e-6, atol=1e-6)  # their slopes are in float32
    for wrong in (alibi_slopes(num_heads)[::-1].copy(), -alibi_slopes(num_heads), 2 ** -np.arange(1.0, num_heads + 1)):
        found, expected, rows = bloom_from(num_heads, alibi_bias(wrong, places, places))
        assert np.abs(found - expected)[rows].max() > 1e-2


def test_distances_on_both_sides():
    bias = alibi_bias(np.array([1.0, 0.5]), np.array([2, 3], np.uint8), np.arange(5, dtype=np.uint8))
    assert_equal(bias[0], [[-2, -1, 0, -1, -2], [-3, -2, -1, 0, -1]])
    assert_equal(bias[1], bias[0] / 2)
