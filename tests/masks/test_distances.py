"""Masks of distances, each against the sentence that defines it."""

import numpy as np
import pytest

from compare import assert_equal
from masks.loops import LENGTHS, by_pairs
from mha import masks
from mha.masks import causal, dilated, log_strided, strided, window


def is_strided(step):
    """Keys that are reached from i by whole steps, either way."""
    return lambda i, j: j in {i + k * step for k in range(-40, 41)}


def is_dilated(left, right, step):
    """Itself, the `left` keys before it and the `right` keys after it, each `step` from the next."""
    return lambda i, j: j in {i - k * step for k in range(left + 1)} | {i + k * step for k in range(right + 1)}


def is_log_strided(i, j):
    """The cell itself and the cells 1, 2, 4, 8, … before it (Li et al., 2019)."""
    return j in {i} | {i - 2**k for k in range(10)}


def is_sparse_transformer(stride):
    """Strided attention of Child et al. (2019): the last `stride` positions, and every stride-th one; none ahead."""
    return lambda i, j: j in range(max(0, i - stride), i + 1) or (j <= i and (i - j) % stride == 0)


@pytest.mark.parametrize(("n_q", "n_k"), LENGTHS)
@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        (strided(1), lambda i, j: True),
        (strided(3), is_strided(3)),
        (strided(5), is_strided(5)),
        (dilated(2, 1, 2), is_dilated(2, 1, 2)),
        (dilated(0, 3, 3), is_dilated(0, 3, 3)),
        (dilated(1, 0, 1), lambda i, j: i - 1 <= j <= i),
        (dilated(0, 0, 4), lambda i, j: i == j),
        (log_strided, is_log_strided),
        (causal & (window(3, 0) | strided(3)), is_sparse_transformer(3)),
    ],
    ids=lambda value: repr(value) if isinstance(value, masks.Mask) else "",
)
def test_the_definition(mask, rule, n_q, n_k):
    assert_equal(mask.dense(n_q, n_k), by_pairs(rule, n_q, n_k, n_k - n_q))
    assert_equal(mask.dense(n_q, n_k, q_start=5), by_pairs(rule, n_q, n_k, 5))
    assert_equal(mask.dense(n_q, n_k, q_start=-3), by_pairs(rule, n_q, n_k, -3))


def test_the_cost_of_powers_of_two():
    """A row of LogSparse attention holds ⌊log₂ i⌋ + 2 keys, its own among them."""
    n = 127
    counts = log_strided.dense(n, n).sum(-1)
    assert_equal(counts, np.array([1, *(int(np.log2(i)) + 2 for i in range(1, n))]))


@pytest.mark.parametrize(
    ("mask", "pair", "text"),
    [
        (strided(3), (7, 1), "i=7 may see j=1: strided(3) (7 − 1 = 6, a multiple of 3)"),
        (strided(3), (2, 7), "i=2 may not see j=7: strided(3) (7 − 2 = 5, no multiple of 3)"),
        (dilated(2, 1, 3), (9, 3), "i=9 may see j=3: dilated(2, 1, 3) (9 − 3 = 2 · 3, 2 ≤ 2)"),
        (dilated(2, 1, 3), (3, 9), "i=3 may not see j=9: dilated(2, 1, 3) (9 − 3 = 2 · 3, 2 > 1)"),
        (dilated(2, 1, 3), (3, 5), "i=3 may not see j=5: dilated(2, 1, 3) (5 − 3 = 2, no multiple of 3)"),
        (log_strided, (9, 1), "i=9 may see j=1: log_strided (9 − 1 = 8, a power of 2)"),
        (log_strided, (9, 2), "i=9 may not see j=2: log_strided (9 − 2 = 7, no power of 2)"),
        (log_strided, (4, 4), "i=4 may see j=4: log_strided (4 = 4)"),
        (log_strided, (4, 5), "i=4 may not see j=5: log_strided (5 > 4)"),
    ],
    ids=repr,
)
def test_explain(mask, pair, text):
    assert mask.explain(*pair) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: causal(), TypeError, r"causal is a mask already: expected masks\.causal without \(\)"),
        (lambda: log_strided(), TypeError, "log_strided is a mask already"),
        (lambda: strided(0), ValueError, "step is 0: expected at least 1"),
        (lambda: strided(2.0), TypeError, r"step is 2\.0: expected an integer"),
        (lambda: strided(True), TypeError, "step is True: expected an integer"),
        (lambda: dilated(-1, 0, 2), ValueError, "left is -1: expected at least 0"),
        (lambda: dilated(0, -2, 2), ValueError, "right is -2: expected at least 0"),
        (lambda: dilated(1, 1, 0), ValueError, "step is 0: expected at least 1"),
        (lambda: dilated(1, 2**40, 2**40), ValueError, "the reach of dilated is .*: expected an integer of 64 bits"),
        (lambda: dilated(1, [1], 2), TypeError, r"right is \[1\]: expected an integer"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
