"""Linformer: the formula of the paper, rows by position, and what it refuses."""

import numpy as np
import pytest

from approximation_calls import D, draw, left_and_right
from compare import assert_equal
from mha import masks, reference
from mha.reference import Linformer

E, F = np.random.default_rng(1).standard_normal((2, 13, 4)) * 0.3


def formula(q, k, v, e, f):
    """Return softmax(Q (E K)ᵀ / √d) F V, E and F of shape (rank, n): Wang et al. (2020), equation 7."""
    scores = q @ np.swapaxes(e @ k, -1, -2) / D**0.5
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return weights @ (f @ v)


@pytest.mark.parametrize("n", [13, 7])
def test_the_formula_of_the_paper(n):
    """Shorter inputs meet the first rows, as in the code of linformer 0.2.3: `proj[:kv_len]`."""
    q, k, v = draw(5, n, groups=4)
    expected = formula(q, k, v, E[:n].T, F[:n].T)
    assert_equal(Linformer(E, F)(q, k, v), expected, atol=1e-13)
    for planted in (formula(q, k, v, F[:n].T, E[:n].T), formula(q, k, v, E[-n:].T[::-1], F[-n:].T)):
        with pytest.raises(AssertionError):
            assert_equal(Linformer(E, F)(q, k, v), planted, atol=1e-13)


def test_projections_of_each_head():
    q, k, v = draw(13)
    e, f = np.random.default_rng(2).standard_normal((2, 2, 13, 4))
    found = Linformer(e, f)(q, k, v)
    for head in range(4):
        group = head // 2
        one = [x[:, part : part + 1] for x, part in ((q, head), (k, group), (v, group))]
        assert_equal(found[:, head : head + 1], Linformer(e[group], f[group])(*one), atol=1e-13)
    assert_equal(Linformer(e, f)(q, k, v, mask=masks.key_padding(np.ones((2, 13), bool))), found)


def test_rows_go_by_position():
    rows = draw(9)
    expected = Linformer(E, F)(*rows)
    for wide, padding, where in left_and_right(rows, 4):
        assert_equal(Linformer(E, F)(*wide, mask=padding)[..., where, :], expected, atol=1e-14)


def test_the_whole_rank_is_attention():
    q, k, v = draw(13)
    assert reference.approximation_error(Linformer(np.eye(13), np.eye(13)), q, k, v) < 1e-14


def test_refusals():
    with pytest.raises(ValueError, match="k has length 14: expected at most 13, the length of e and f"):
        Linformer(E, F)(*draw(3, 14))
    with pytest.raises(ValueError, match="Linformer does not support a causal mask: it supports padding, cross"):
        Linformer(E, F)(*draw(3), mask=masks.causal)
    with pytest.raises(ValueError, match=r"f has shape \(11, 4\): expected \(13, 4\)"):
        Linformer(np.ones((13, 4)), np.ones((11, 4)))
    with pytest.raises(ValueError, match=r"e has shape \(13,\): expected \(…, length, rank\)"):
        Linformer(np.ones(13), np.ones(13))
