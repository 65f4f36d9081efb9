"""T5's buckets of distances, by hand and against transformers."""

import numpy as np
import pytest
import torch
import transformers
from transformers.models.t5.modeling_t5 import T5Attention

from compare import assert_equal
from exact import redraw
from mha.reference import relative_bias, relative_buckets


@pytest.mark.parametrize(
    ("bidirectional", "expected"),
    [(True, [3, 2, 2, 2, 2, 1, 0, 5, 6, 6, 6, 6, 7]), (False, [5, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0])],
)
def test_eight_buckets(bidirectional, expected):
    """transformers#8518, t5#415: distances are key minus query."""
    found = relative_buckets(np.arange(-6, 7), num_buckets=8, max_distance=16, bidirectional=bidirectional)
    assert_equal(found, expected)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 16), (14, 37), (64, 256)])
def test_equals_transformers_at_every_distance(num_buckets, max_distance, bidirectional):
    distances = np.arange(-1000, 1001)
    options = {"bidirectional": bidirectional, "num_buckets": num_buckets, "max_distance": max_distance}
    expected = T5Attention._relative_position_bucket(torch.from_numpy(distances), **options)
    assert_equal(relative_buckets(distances, **options), expected)


def test_the_bias_is_the_entry_of_the_bucket():
    table = np.random.default_rng(0).normal(size=(8, 3))
    q_positions, k_positions = np.array([[4, 5], [0, 1]]), np.arange(7)
    bias = relative_bias(table, q_positions, k_positions, max_distance=16)
    unsigned = q_positions.astype(np.uint8), k_positions.astype(np.uint8)
    assert_equal(relative_bias(table, *unsigned, max_distance=16), bias)
    assert bias.shape == (2, 3, 2, 7)
    for b, h, i, j in np.ndindex(bias.shape):
        bucket = relative_buckets(j - q_positions[b, i], num_buckets=8, max_distance=16)
        assert bias[b, h, i, j] == table[bucket, h]


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize(("n", "past"), [(7, 0), (1, 6), (3, 5)])
def test_the_bias_of_transformers_behind_a_cache(n, past, decoder):
    """transformers#8518: what a step adds is the last rows of what the whole would."""
    config = transformers.T5Config(
        d_model=12, num_heads=3, d_kv=4, relative_attention_num_buckets=8, relative_attention_max_distance=6
    )
    config.is_decoder = decoder
    layer = redraw(T5Attention(config, has_relative_attention_bias=True, layer_idx=0), seed=3).double()
    table, options = layer.relative_attention_bias.weight.detach().numpy(), {"max_distance": 6}
    expected = layer.compute_bias(n, past + n, past_seen_tokens=past)[0].detach()
    at_q, at_k = past + np.arange(n), np.arange(past + n)
    assert_equal(relative_bias(table, at_q, at_k, bidirectional=not decoder, **options), expected)
    other = relative_bias(table, at_k[:n], at_k, bidirectional=not decoder, **options)
    assert past == 0 or np.abs(other - expected.numpy()).max() > 1e-2, "queries stand behind the cache"
    other = relative_bias(table, at_q, at_k, bidirectional=decoder, **options)
    assert np.abs(other - expected.numpy()).max() > 1e-2, "the two stacks have other buckets"
