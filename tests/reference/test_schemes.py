"""What a position scheme is told, against positions written out."""

from types import SimpleNamespace

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention, head_outputs, join_heads, rotate, split_heads
from mha.reference.schemes import placed

Q, K = (np.random.default_rng(seed).normal(size=(2, 3, n, 4)) for seed, n in ((0, 5), (1, 7)))


def distance(q_positions, k_positions):
    """A bias that tells every difference of positions apart."""
    return (q_positions[..., :, None] - k_positions[..., None, :])[..., None, :, :] / 7


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 2),
        ({"q_start": 4}, 4),
        ({"q_start": [1, 3]}, [1, 3]),
        ({"mask": masks.lengths([7, 5])}, [2, 0]),
        ({"mask": np.ones((5, 7), bool)}, 2),
    ],
    ids=str,
)
def test_queries_stand_where_the_mask_sees_them(options, first):
    at_q, at_k = np.asarray(first)[..., None] + np.arange(5), np.arange(7)
    q, k, bias = placed(SimpleNamespace(rotate=rotate, bias=distance), Q, K, **options)
    assert_equal(q, rotate(Q, at_q))
    assert_equal(k, rotate(K, at_k))
    assert_equal(bias, distance(at_q, at_k))


def test_the_bias_of_the_call_is_added():
    given = np.random.default_rng(2).normal(size=(3, 5, 7))
    q, k, bias = placed(SimpleNamespace(bias=distance), Q, K, bias=given)
    assert_equal(bias, given + distance(np.arange(2, 7), np.arange(7)))
    assert_equal(q, Q)
    assert_equal(k, K)


def test_norm_then_rotation_then_attention():
    x, eye = np.random.default_rng(3).normal(size=(2, 5, 12)), np.eye(12)
    double, triple = (lambda heads: 2 * heads), (lambda heads: 3 * heads)
    heads = head_outputs(
        x, eye, eye, eye, num_heads=3, qk_norm=(double, triple), position=SimpleNamespace(rotate=rotate)
    )
    turned = rotate(split_heads(x, 3), np.arange(5))
    expected = attention(2 * turned, 3 * turned, split_heads(x, 3))
    assert_equal(join_heads(heads), join_heads(expected), rtol=1e-13, atol=1e-13)
