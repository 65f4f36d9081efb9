"""Sigmoid attention against Ramapuram et al. (2025), written out."""

import math

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention_weights, sigmoid_attention, sigmoid_weights


def draw(n_q=7, n_k=11, seed=0):
    make = np.random.default_rng(seed).standard_normal
    return make((2, 6, n_q, 5)), make((2, 3, n_k, 5)), make((2, 3, n_k, 2))


def test_is_the_equation():
    q, k, v = draw()
    k6, v6 = np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)
    for offset in (None, -math.log(11), 0.7):
        shift = -math.log(11) if offset is None else offset
        weights = 1 / (1 + np.exp(-(q @ np.swapaxes(k6, -1, -2) / 5**0.5 + shift)))
        assert_equal(sigmoid_weights(q, k, offset=offset), weights, atol=1e-14)
        assert_equal(sigmoid_attention(q, k, v, offset=offset), weights @ v6, atol=1e-13)


def test_rows_begin_near_one_and_do_not_have_to_sum_to_one():
    weights = sigmoid_weights(np.zeros((1, 1, 4)), np.zeros((1, 1000, 4)))
    assert_equal(weights.sum(-1), [[1.0]], atol=1e-3)
    assert sigmoid_weights(np.ones((1, 1, 4)), np.ones((1, 1000, 4))).sum() > 5


def test_no_key_takes_from_another():
    q, k, _ = draw()
    before, softmax = sigmoid_weights(q, k, offset=0.0), attention_weights(q, k)
    k = k.copy()
    k[..., 0, :] += 3
    assert_equal(sigmoid_weights(q, k, offset=0.0)[..., 1:], before[..., 1:])
    assert np.abs(attention_weights(q, k) - softmax)[..., 1:].max() > 0.1


def test_n_is_what_a_row_sees():
    q, k, v = draw(11, 11)
    whole = sigmoid_attention(q, k, v, mask=masks.causal)
    for n in (1, 4, 10):
        part = sigmoid_attention(q[..., :n, :], k[..., :n, :], v[..., :n, :], mask=masks.causal)
        assert_equal(part, whole[..., :n, :], atol=1e-14, label="cached as whole")
    k[:, :, 9:], v[:, :, 9:] = np.nan, np.nan
    padded = sigmoid_attention(q, k, v, mask=masks.lengths([9, 9]), q_start=0)
    assert_equal(padded, sigmoid_attention(q, k[:, :, :9], v[:, :, :9]), atol=1e-14)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (5, 3)], ids=str)
def test_empty_rows_are_zero(lengths):
    found = sigmoid_attention(*draw(*lengths), mask=masks.causal)
    empty = ~masks.causal.dense(*lengths).any(-1)
    assert_equal(found[:, :, empty], np.zeros((2, 6, empty.sum(), 2)))


def test_large_scores_do_not_overflow():
    q, k = np.full((1, 1, 1), 40.0), np.array([[[40.0], [-40.0]]])
    assert_equal(sigmoid_weights(q, k), [[[1.0, 0.0]]])


def test_sinks_are_refused():
    with pytest.raises(ValueError, match="sinks is given: sigmoid attention has no sinks"):
        sigmoid_attention(*draw(), sinks=np.zeros(6))
