"""T5's buckets of distances, by hand and against transformers."""

import numpy as np
import pytest
import torch

from compare import assert_equal
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
    from transformers.models.t5.modeling_t5 import T5Attention

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
