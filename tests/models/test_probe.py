"""The maps and the heads of a model are those of `analysis.capture`, stacked or of one layer."""

import pytest
import torch

from compare import assert_equal
from exact import redraw
from mha.analysis import remove_heads
from mha.models.llama import Llama, LlamaConfig
from mha.models.probe import attention_maps, layer_heads
from mha.nn import attention, attention_weights

SIZES = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
TOKENS = torch.randint(SIZES.vocab_size, (2, 11), generator=torch.Generator().manual_seed(2))
MODEL = redraw(Llama(SIZES), seed=13)


def test_queries_and_keys_give_the_maps_and_the_heads():
    q, k, v, heads = layer_heads(MODEL, TOKENS, 1)
    assert (q.shape, k.shape, v.shape) == ((2, 6, 11, 10), (2, 3, 11, 10), (2, 3, 11, 10))
    maps = attention_maps(MODEL, TOKENS)
    assert maps.shape == (3, 2, 6, 11, 11)
    future = torch.ones(11, 11, dtype=torch.bool).tril()
    assert_equal(attention_weights(q, k, mask=future), maps[1], atol=1e-6, label="maps")  # weights ≤ 1, float32
    assert_equal(attention(q, k, v, mask=future), heads, rtol=1e-5, atol=1e-5, label="heads")


def test_layers_with_different_numbers_of_heads_are_not_stacked():
    model = redraw(Llama(SIZES), seed=13)
    remove_heads(model, {(0, 1), (2, 4), (2, 5)})
    with pytest.raises(ValueError, match=r"the layers have \[5, 6, 4\] heads: expected as many in each"):
        attention_maps(model, TOKENS)
    remove_heads(model, {(0, 2), (1, 1), (1, 3)})
    assert attention_maps(model, TOKENS).shape == (3, 2, 4, 11, 11)
