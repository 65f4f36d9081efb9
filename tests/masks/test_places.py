"""Masks of places, each against the sentence that defines it."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from masks.loops import LENGTHS, by_pairs
from mha import masks
from mha.masks import causal, global_tokens, prefix, window


def is_global(positions):
    return lambda i, j: i in positions or j in positions


@pytest.mark.parametrize(("n_q", "n_k"), LENGTHS)
@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        (prefix(0), lambda i, j: False),
        (prefix(3), lambda i, j: j in range(3)),
        (causal | prefix(2), lambda i, j: j in range(2) or j <= i),
        (global_tokens([0]), is_global({0})),
        (global_tokens([5, 2, 2]), is_global({2, 5})),
        (global_tokens([40]), is_global({40})),
        (global_tokens([]), is_global(set())),
        (window(1, 1) | global_tokens([0, 4]), lambda i, j: abs(i - j) <= 1 or is_global({0, 4})(i, j)),
    ],
    ids=lambda value: repr(value) if isinstance(value, masks.Mask) else "",
)
def test_the_definition(mask, rule, n_q, n_k):
    for start in (None, 5, -3):
        first = n_k - n_q if start is None else start
        assert_equal(mask.dense(n_q, n_k, q_start=start), by_pairs(rule, n_q, n_k, first), label=f"from {first}")


def test_each_sample_has_its_own():
    chosen, n = [{0, 3}, set(), {1, 6}], [0, 7, 2]
    see, known = global_tokens(list(map(list, chosen))).dense(5, 7), prefix(n).dense(5, 7)
    assert see.shape == known.shape == (3, 1, 5, 7)
    for b in range(3):
        assert_equal(see[b, 0], by_pairs(is_global(chosen[b]), 5, 7, 2))
        assert_equal(known[b, 0], by_pairs(lambda i, j, b=b: j < n[b], 5, 7, 2))


def test_values():
    assert prefix(3) == prefix([3]) == prefix(torch.tensor(3)) == prefix(np.array([3])) != prefix(4)
    assert global_tokens([4, 0]) == global_tokens(np.array([0, 4])) == global_tokens(torch.tensor([4, 0, 0]))
    assert global_tokens([0, 4]) != global_tokens([[0, 4], [0, 4]])
    assert repr(global_tokens([4, 0])) == "global_tokens([0, 4])"
    assert repr(global_tokens([[4], []])) == "global_tokens([[4], []])"
    assert repr(prefix([4, 1])) == "prefix([4, 1])"
    assert prefix(5).valid_lengths() is None  # a prefix is no padding: queries stay at the end


@pytest.mark.parametrize(
    ("mask", "where", "text"),
    [
        (prefix(3), {"i": 7, "j": 1}, "i=7 may see j=1: prefix(3) (1 < 3)"),
        (prefix([3, 1]), {"i": 7, "j": 1, "b": 1}, "i=7 may not see j=1: prefix([3, 1]) (sample 1: 1 ≥ 1)"),
        (global_tokens([2]), {"i": 2, "j": 9}, "i=2 may see j=9: global_tokens([2]) (query 2 is global)"),
        (global_tokens([2]), {"i": 9, "j": 2}, "i=9 may see j=2: global_tokens([2]) (key 2 is global)"),
        (global_tokens([2]), {"i": 9, "j": 1}, "i=9 may not see j=1: global_tokens([2]) (neither 9 nor 1 is global)"),
    ],
    ids=repr,
)
def test_explain(mask, where, text):
    assert mask.explain(**where) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: prefix(-1), ValueError, "n holds -1: expected numbers of keys"),
        (lambda: prefix([2, -1]), ValueError, "n holds -1: expected numbers of keys, at least 0"),
        (lambda: prefix(1.5), TypeError, r"n is 1\.5: expected an integer"),
        (lambda: prefix([1.5]), TypeError, "n has dtype float64: expected an integer, or one per sample"),
        (lambda: prefix([True]), TypeError, "n has dtype bool: expected an integer, or one per sample"),
        (lambda: prefix(True), TypeError, "n is True: expected an integer"),
        (lambda: prefix([1, 2]).check(3, 3, 3, 1), ValueError, "prefix has 2 entries and the batch has 3"),
        (lambda: global_tokens(3), TypeError, "positions is 3: expected a list of integers, or one list per sample"),
        (lambda: global_tokens([-1]), ValueError, "positions is -1: expected at least 0"),
        (lambda: global_tokens([0.0]), TypeError, r"positions is 0\.0: expected an integer"),
        (lambda: global_tokens([True, False]), TypeError, "positions is True: expected an integer"),
        (lambda: global_tokens([0, [1]]), TypeError, "positions mixes integers and lists"),
        (lambda: global_tokens([[0], [1]]).check(3, 3, 3, 1), ValueError, "of 2 samples and the batch has 3"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
