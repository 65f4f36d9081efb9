"""Soft lookup against loops and its two limits; self- and cross-attention against the definition and each other."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention, cross_attention, self_attention, soft_lookup

N, M, D, E, WIDTH, OTHER = 5, 7, 3, 2, 11, 13
ROUNDING = 1e-13  # a few dozen operations of float64 on numbers of order 1


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def lookup_by_loops(queries, keys, values, temperature):
    answers = []
    for q in queries:
        shares = [np.exp(sum(a * b for a, b in zip(q, k, strict=True)) / temperature) for k in keys]
        answers.append(sum(share * v for share, v in zip(shares, values, strict=True)) / sum(shares))
    return np.array(answers)


@pytest.mark.parametrize("temperature", [0.3, 1, 7.0])
def test_soft_lookup_is_the_weighted_mean(temperature):
    queries, keys, values = draw(0, N, D), draw(1, M, D), draw(2, M, E)
    found = soft_lookup(queries, keys, values, temperature=temperature)
    assert_equal(found, lookup_by_loops(queries, keys, values, temperature), atol=ROUNDING)


def test_attention_is_a_soft_lookup_at_temperature_root_d():
    queries, keys, values = draw(0, 2, N, D), draw(1, 2, M, D), draw(2, 2, M, E)
    found = soft_lookup(queries, keys, values, temperature=D**0.5)
    expected = attention(queries[:, None], keys[:, None], values[:, None])[:, 0]
    assert_equal(found, expected, atol=ROUNDING)


def test_the_cold_limit_is_the_best_match():
    queries, keys, values = draw(0, 2, N, D), draw(1, 2, M, D), draw(2, 2, M, E)
    scores = np.sort(queries @ keys.swapaxes(-1, -2), axis=-1)
    lead = (scores[..., -1] - scores[..., -2]).min()
    cold = soft_lookup(queries, keys, values, temperature=0)
    best = (queries @ keys.swapaxes(-1, -2)).argmax(-1)
    assert_equal(cold, np.take_along_axis(values, best[..., None], -2), label="a dictionary")
    near = soft_lookup(queries, keys, values, temperature=lead / 50)
    assert_equal(near, cold, atol=2 * M * np.exp(-50) * np.abs(values).max() + ROUNDING, label="T near 0")


def test_equal_matches_share_the_answer_at_temperature_zero():
    keys, values = np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([[2.0], [4], [9]])
    assert_equal(soft_lookup(np.array([[1.0, 0], [0, 0]]), keys, values, temperature=0), np.array([[3.0], [5]]))


def test_the_hot_limit_is_the_plain_mean():
    queries, keys, values = draw(0, N, D), draw(1, M, D), draw(2, M, E)
    hot = soft_lookup(queries, keys, values, temperature=1e9)
    slack = 2 * np.abs(queries @ keys.T).max() / 1e9 * np.abs(values).max() + ROUNDING
    assert_equal(hot, np.broadcast_to(values.mean(0), (N, E)), atol=slack)


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1)])
def test_no_queries_and_no_keys(n, m, temperature):
    found = soft_lookup(draw(0, n, D), draw(1, m, D), draw(2, m, E), temperature=temperature)
    assert found.shape == (n, E)
    if m == 0:
        assert_equal(found, np.zeros((n, E)))


@pytest.mark.parametrize("temperature", [-0.1, np.inf, np.nan, "1", None])
def test_an_impossible_temperature_is_refused(temperature):
    with pytest.raises(ValueError, match=r"temperature is .*: expected a finite number of at least 0"):
        soft_lookup(draw(0, N, D), draw(1, M, D), draw(2, M, E), temperature=temperature)


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_keys_without_values_are_refused(temperature):
    with pytest.raises(ValueError, match="v has length 2 and k has length 7"):
        soft_lookup(draw(0, N, D), draw(1, M, D), draw(2, 2, E), temperature=temperature)
    with pytest.raises(ValueError, match=r"queries has shape \(3,\): expected \(…, length, width\)"):
        soft_lookup(draw(0, D), draw(1, M, D), draw(2, M, E), temperature=temperature)


def projections(d_context=WIDTH):
    return draw(3, WIDTH, D) * 0.3, draw(4, d_context, D) * 0.3, draw(5, d_context, E) * 0.3


def test_cross_attention_is_attention_of_the_projections():
    x, context = draw(0, 2, N, WIDTH), draw(1, 2, M, OTHER)
    w_q, w_k, w_v = projections(OTHER)
    mask = masks.window(2, 1)
    found = cross_attention(x, context, w_q, w_k, w_v, mask=mask, scale=0.7)
    q, k, v = ((a @ w)[:, None] for a, w in ((x, w_q), (context, w_k), (context, w_v)))
    assert_equal(found, attention(q, k, v, mask=mask, scale=0.7)[:, 0])


def test_self_attention_is_cross_attention_with_itself():
    x, weights = draw(0, 2, N, WIDTH), projections()
    by_hand = np.exp((x @ weights[0]) @ (x @ weights[1]).swapaxes(-1, -2) / D**0.5)
    by_hand = by_hand / by_hand.sum(-1, keepdims=True) @ (x @ weights[2])
    assert_equal(self_attention(x, *weights), by_hand, atol=ROUNDING)
    assert_equal(self_attention(x, *weights), cross_attention(x, x, *weights))


def test_self_attention_follows_a_permutation():
    x, weights, order = draw(0, N, WIDTH), projections(), np.array([3, 0, 4, 1, 2])
    assert_equal(self_attention(x[order], *weights), self_attention(x, *weights)[order], atol=ROUNDING)
    plain, causal = (self_attention(x, *weights, mask=mask)[order] for mask in (None, masks.causal))
    moved = self_attention(x[order], *weights, mask=masks.causal)
    assert np.abs(moved - causal).max() > 0.01, "a causal mask knows the order"
    assert np.abs(plain - causal).max() > 0.01


def test_cross_attention_follows_its_queries_and_ignores_the_order_of_its_context():
    x, context, order = draw(0, N, WIDTH), draw(1, M, OTHER), np.array([6, 3, 0, 5, 4, 1, 2])
    weights = projections(OTHER)
    straight = cross_attention(x, context, *weights)
    assert_equal(cross_attention(x, context[order], *weights), straight, atol=ROUNDING)
    assert_equal(cross_attention(x[::-1], context, *weights), straight[::-1], atol=ROUNDING)


def test_a_projection_of_the_wrong_width_is_named():
    x, context = draw(0, N, WIDTH), draw(1, M, OTHER)
    w_q, w_k, w_v = projections(OTHER)
    with pytest.raises(ValueError, match=r"w_k has shape \(13, 3\): expected \(11, d_out\) for context"):
        cross_attention(x, x, w_q, w_k, w_v)
    with pytest.raises(ValueError, match=r"w_q has shape \(3, 11\): expected \(11, d_out\) for x; torch's Linear"):
        cross_attention(x, context, w_q.T, w_k, w_v)
