"""Patterns on maps whose score is known: pure heads, uniform ones, and a loop over rows."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.analysis.patterns import attention_distance, entropy, induction_score, previous_token_score, sink_score
from mha.reference import attention_stats, attention_weights

N, PERIOD = 13, 5
ATOL = 2 * N * rounding.EPS


def shifted(back):
    """A head that looks `back` positions back, and at the first token where it cannot."""
    weights = np.zeros((N, N))
    weights[np.arange(N), np.maximum(np.arange(N) - back, 0)] = 1
    return weights


def uniform():
    return np.tri(N) / np.arange(1, N + 1)[:, None]


def random(*leading):
    q, k = np.random.default_rng(0).normal(size=(2, *leading, N, 7))
    return attention_weights(q, k, mask=masks.causal)


@pytest.mark.parametrize(
    ("score", "pure"),
    [
        (previous_token_score, shifted(1)),
        (lambda weights: induction_score(weights, PERIOD), shifted(PERIOD - 1)),
        (sink_score, shifted(N)),
    ],
    ids=["previous", "induction", "sink"],
)
def test_a_pure_head_scores_one_and_the_others_less(score, pure):
    assert_equal(score(pure), 1.0)
    others = [shifted(back) for back in (0, 2, 3)]
    assert all(score(other) < 0.5 for other in others)


def test_previous_token_score():
    assert_equal(previous_token_score(uniform()), np.mean([1 / (i + 1) for i in range(1, N)]), atol=ATOL)
    weights = random(2, 3)
    expected = np.mean([weights[..., i, i - 1] for i in range(1, N)], axis=0)
    assert_equal(previous_token_score(weights), expected, atol=ATOL)


def test_induction_score():
    weights = random(2, 3)
    expected = np.mean([weights[..., i, i - PERIOD + 1] for i in range(PERIOD, N)], axis=0)
    assert_equal(induction_score(weights, PERIOD), expected, atol=ATOL)


def test_sink_score():
    weights = random(2, 3)
    assert_equal(sink_score(weights), np.mean([weights[..., i, 0] for i in range(1, N)], axis=0), atol=ATOL)


def test_attention_distance():
    weights = random(2, 3)
    expected = np.mean([sum(weights[..., i, j] * (i - j) for j in range(i + 1)) for i in range(N)], axis=0)
    assert_equal(attention_distance(weights), expected, atol=N * ATOL)
    assert_equal(attention_distance(weights.mT), attention_distance(weights.mT[..., ::-1, ::-1]), atol=N * ATOL)
    assert_equal(attention_distance(uniform()), (N - 1) / 4, atol=N * ATOL)
    assert_equal(attention_distance(np.eye(N)), 0.0)
    back = 3
    assert_equal(attention_distance(shifted(back)), np.minimum(np.arange(N), back).mean())


def test_attention_distance_counts_each_row_alike():
    weights = random(3)
    part = weights * np.linspace(0.1, 1, N)[:, None]  # as if a sink had taken the rest
    assert_equal(attention_distance(part), attention_distance(weights), rtol=1e-13)
    sinking = shifted(N)  # nothing but the first token, which is far
    assert_equal(attention_distance(sinking), (N - 1) / 2)
    assert_equal(attention_distance(sinking[1:, 1:]), 0.0, label="rows that see no other key")


def test_entropy():
    assert_equal(entropy(shifted(1)), 0.0)
    assert not np.signbit(entropy(shifted(1)))
    assert_equal(entropy(np.full((N, N), 1 / N)), np.log(N), rtol=ATOL)
    assert_equal(entropy(uniform()), np.mean(np.log(np.arange(1, N + 1))), rtol=ATOL)
    q, k = np.random.default_rng(1).normal(size=(2, 3, N, 7))
    stats = attention_stats(q, k, k, mask=masks.causal, sinks=np.ones(3))[1]
    weights = attention_weights(q, k, mask=masks.causal, sinks=np.ones(3))
    assert_equal(entropy(weights), stats.entropy.mean(-1), atol=64 * ATOL)


def test_entropy_leaves_empty_rows_out():
    weights = np.zeros((3, 3))
    assert_equal(entropy(weights), 0.0)
    weights[1] = 1 / 3
    assert_equal(entropy(weights), np.log(3), rtol=ATOL)


@pytest.mark.parametrize("weights", [np.zeros(5), np.zeros((3, 5)), np.zeros((1, 1))])
def test_maps_must_be_square(weights):
    with pytest.raises(ValueError, match=r"weights has shape .*expected \(…, n, n\)"):
        previous_token_score(weights)


@pytest.mark.parametrize(
    "score", [previous_token_score, sink_score, attention_distance, entropy, lambda w: induction_score(w, PERIOD)]
)
@pytest.mark.parametrize("bad", [-0.5, np.nan])
def test_scores_are_not_weights(score, bad):
    weights = uniform()
    weights[3, 2] = bad
    with pytest.raises(ValueError, match="weights holds negative numbers or NaN: expected attention weights"):
        score(weights)


def test_entropy_of_two_sequences():
    assert_equal(entropy(np.full((2, 3, 4), 0.25)), [np.log(4)] * 2, rtol=ATOL)
    with pytest.raises(ValueError, match=r"weights has shape \(5,\): expected \(…, i, j\)"):
        entropy(np.zeros(5))


def test_the_period_is_an_integer():
    with pytest.raises(TypeError, match=r"period is 2\.5: expected an integer"):
        induction_score(uniform(), 2.5)


@pytest.mark.parametrize("period", [0, 1, N, N + 2])
def test_the_period_must_fit(period):
    with pytest.raises(ValueError, match=f"period is {period}: expected more than 1 and less than the length 13"):
        induction_score(uniform(), period)
