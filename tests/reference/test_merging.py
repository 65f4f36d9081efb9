"""`mha.reference.merge`: attention over parts of the keys is attention over all of them."""

from itertools import pairwise

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.reference import attention_stats, merge


def test_by_hand():
    """Weights 1 : 2 and 3 alone: together 1 : 2 : 3."""
    out, lse = merge(np.array([[[8.0 / 3]], [[6.0]]]), np.log(np.array([[3.0], [3.0]])))
    assert_equal(out, [[13.0 / 3]], rtol=1e-15)
    assert_equal(lse, np.log([6.0]), rtol=1e-15)


@pytest.mark.parametrize("ends", [(0, 11), (0, 1, 11), (0, 0, 4, 4, 7, 11)], ids=str)
@pytest.mark.parametrize("sinks", [None, np.array([0.3, -2.0, 5.0, 0.0])], ids=["no sinks", "sinks"])
def test_parts_are_the_whole(ends, sinks):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 5, 7)), rng.standard_normal((3, 2, 11, 7)), rng.standard_normal((3, 2, 11, 2))
    see = np.array(rng.random((3, 4, 5, 11)) < 0.3)
    see[:, :, 2] = False
    parts = [
        attention_stats(q, k[:, :, a:b], v[:, :, a:b], mask=see[..., a:b], sinks=sinks if b == 11 else None)
        for a, b in pairwise(ends)
    ]
    out, lse = merge(*(np.stack(x) for x in zip(*((out, stats.lse) for out, stats in parts), strict=True)))
    expected, stats = attention_stats(q, k, v, mask=masks.dense(see), sinks=sinks)
    close = rounding.of_output(q, k, v)
    assert_equal(out, expected, atol=2 * close)
    assert_equal(lse, stats.lse, atol=2 * close)


def test_merging_is_associative_and_the_order_is_free():
    rng = np.random.default_rng(1)
    outputs, lses = rng.standard_normal((3, 2, 5, 4)), 30 * rng.standard_normal((3, 2, 5))
    lses[1, 0] = -np.inf
    outputs[1, 0] = 0
    pair = merge(outputs[:2], lses[:2])
    nested = merge(np.stack([pair[0], outputs[2]]), np.stack([pair[1], lses[2]]))
    for order in ([0, 1, 2], [2, 0, 1]):
        for found, expected in zip(nested, merge(outputs[order], lses[order]), strict=True):
            assert_equal(found, expected, rtol=1e-13, atol=1e-14)


def test_nothing_anywhere():
    out, lse = merge(np.zeros((2, 3, 4)), np.full((2, 3), -np.inf))
    assert_equal(out, np.zeros((3, 4)))
    assert_equal(lse, np.full(3, -np.inf))


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match=r"lses has shape \(2, 4\): expected \(2, 3\), one for each row of outputs"):
        merge(np.zeros((2, 3, 4)), np.zeros((2, 4)))
