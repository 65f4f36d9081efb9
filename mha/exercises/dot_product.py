"""Scaled dot-product attention: softmax, weights, masks, temperature and one step of the backward pass."""

import math

import numpy as np

from mha import masks, reference
from mha.exercises.exercise import Exercise


def softmax(scores):
    return reference.softmax(np.asarray(scores, dtype=float))


def attention_weights(q, k):
    return reference.attention_weights(_as_head(q), _as_head(k))[..., 0, :, :]


def causal_mask(n_q, n_k):
    return masks.causal.dense(n_q, n_k)


def attention(q, k, v, mask):
    return reference.attention(_as_head(q), _as_head(k), _as_head(v), mask=mask)[..., 0, :, :]


def coldest_weights(scores):
    winners = scores == scores.max(-1, keepdims=True)
    return winners / winners.sum(-1, keepdims=True)


def softmax_backward(weights, d_weights):
    return weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True))


def _as_head(x):
    """Give x a head axis, which the package asks for and the exercises do without."""
    return x[..., None, :, :]


def _scores(q, k, scale=None):
    return q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)


def _careless_softmax(scores):
    """Softmax that does not think of rows of −inf."""
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _normal(rng, *shapes):
    return tuple(rng.standard_normal(shape) for shape in shapes)


def _over(axis, scores):
    return softmax(scores.swapaxes(axis, -1)).swapaxes(axis, -1)


def _rows_sum_to_one(weights, *inputs):
    return (abs(weights.sum(-1) - 1) < 1e-9).all()


def _integer_softmax(scores):
    weights = np.zeros_like(scores)
    weights[...] = softmax(scores)
    return weights


SOFTMAX = Exercise(
    id="dot-product-1",
    solve=softmax,
    cases=lambda rng: [
        (np.array([[0.0, 1.0, 2.0], [3.0, 1.0, 1.0]]),),
        (np.array([[0, 1, 2], [3, 1, 1]]),),
        (np.array([[1000.0, 1001.0, 999.0], [-1000.0, -1001.0, -999.0]]),),
        (np.array([[0.0, 1.0, 2.0], [-3000.0, -3001.0, -3002.0]]),),
        *((scores,) for scores in _normal(rng, (5, 1), (7,), (3, 3), (2, 5, 7))),
    ],
    mistakes={
        "other-axis": lambda scores: _over(0, scores),
        "next-to-last-axis": lambda scores: _over(-2, scores),
        "whole-array": lambda scores: softmax(scores.reshape(-1)).reshape(scores.shape),
        "unstable": lambda scores: np.exp(scores) / np.exp(scores).sum(-1, keepdims=True),
        "one-maximum": lambda scores: (
            np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum(-1, keepdims=True)
        ),
        "keepdims": lambda scores: np.exp(scores) / np.exp(scores).sum(-1),
        "no-exponential": lambda scores: scores / scores.sum(-1, keepdims=True),
        "not-normalised": lambda scores: np.exp(scores - scores.max(-1, keepdims=True)),
        "integer": _integer_softmax,
    },
    properties={
        "is-positive": lambda weights, scores: (weights >= 0).all(),
        "rows-sum-to-one": _rows_sum_to_one,
    },
)

WEIGHTS = Exercise(
    id="dot-product-2",
    solve=attention_weights,
    cases=lambda rng: [
        (np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 1.0]])),
        *(_normal(rng, *shapes) for shapes in [((1, 3), (5, 3)), ((5, 7), (5, 7)), ((2, 3, 5, 7), (2, 3, 11, 7))]),
    ],
    mistakes={
        "no-scale": lambda q, k: softmax(_scores(q, k, 1.0)),
        "scale-by-width": lambda q, k: softmax(_scores(q, k, 1 / q.shape[-1])),
        "scale-up": lambda q, k: softmax(_scores(q, k, math.sqrt(q.shape[-1]))),
        "scale-by-keys": lambda q, k: softmax(_scores(q, k, 1 / math.sqrt(k.shape[-2]))),
        "scale-after": lambda q, k: softmax(_scores(q, k, 1.0)) / math.sqrt(q.shape[-1]),
        "softmax-over-queries": lambda q, k: _over(-2, _scores(q, k)),
        "keys-ask": lambda q, k: attention_weights(k, q),
        "leading-axes": lambda q, k: softmax(q @ k.T / math.sqrt(q.shape[-1])),
        "no-softmax": _scores,
    },
    properties={
        "is-positive": lambda weights, q, k: (weights >= 0).all(),
        "rows-sum-to-one": _rows_sum_to_one,
    },
)

CAUSAL = Exercise(
    id="dot-product-3",
    solve=causal_mask,
    cases=lambda rng: [(3, 3), (2, 5), (1, 7), (5, 2)],
    mistakes={
        "upper-left": lambda n_q, n_k: np.arange(n_k) <= np.arange(n_q)[:, None],
        "not-itself": lambda n_q, n_k: np.arange(n_k) < np.arange(n_q)[:, None] + n_k - n_q,
        "inverted": lambda n_q, n_k: ~causal_mask(n_q, n_k),
        "future": lambda n_q, n_k: np.arange(n_k) >= np.arange(n_q)[:, None] + n_k - n_q,
        "transposed": lambda n_q, n_k: causal_mask(n_k, n_q),
        "square": lambda n_q, n_k: causal_mask(n_q, n_q),
        "numbers": lambda n_q, n_k: causal_mask(n_q, n_k).astype(int),
        "added-scores": lambda n_q, n_k: np.where(causal_mask(n_q, n_k), 0.0, -np.inf),
    },
    properties={
        "last-sees-all": lambda mask, n_q, n_k: mask[-1].all(),
        "one-more-each-row": lambda mask, n_q, n_k: (np.diff(mask.sum(-1)) <= 1).all(),
    },
)

SPREAD = Exercise(
    id="dot-product-4",
    solve=lambda: 4.0,
    mistakes={
        "variance": lambda: 16.0,
        "already-scaled": lambda: 0.5,
        "only-queries": lambda: 8.0,
        "half-as-variance": lambda: math.sqrt(32),
        "added-spreads": lambda: 32.0,
    },
    tolerance=5e-3,
)


def _with_weights(change):
    """Build a wrong attention from a function that makes weights of scores and mask."""

    def attention(q, k, v, mask):
        return change(_scores(q, k), mask) @ v

    return attention


def _masked(rng, *shapes):
    """Draw q, k, v and a mask that hides some keys, and all of them from the second query."""
    q, k, v = _normal(rng, *shapes)
    mask = rng.random((q.shape[-2], k.shape[-2])) < 0.6
    mask[:, 0], mask[1:2] = True, False
    return q, k, v, mask


_TINY = (
    np.array([[1.0, 0.0], [0.0, 2.0]]),
    np.array([[1.0, 1.0], [2.0, -1.0], [3.0, 2.0]]),
    np.array([[1.0], [2.0], [4.0]]),
)

ATTENTION = Exercise(
    id="dot-product-5",
    solve=attention,
    cases=lambda rng: [
        (*_TINY, np.array([[True, True, False], [True, False, True]])),
        (*_TINY, np.array([[True, True, False], [False, False, False]])),
        _masked(rng, (5, 7), (3, 7), (3, 2)),
        _masked(rng, (5, 3), (5, 3), (5, 3)),
        _masked(rng, (2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 5)),
    ],
    mistakes={
        "inverted": lambda q, k, v, mask: attention(q, k, v, ~mask),
        "ignored": lambda q, k, v, mask: attention(q, k, v, np.ones_like(mask)),
        "after-softmax": _with_weights(lambda scores, mask: softmax(scores) * mask),
        "times-mask": _with_weights(lambda scores, mask: softmax(scores * mask)),
        "large-negative": _with_weights(lambda scores, mask: softmax(np.where(mask, scores, -1e9))),
        "empty-rows-nan": _with_weights(lambda scores, mask: _careless_softmax(np.where(mask, scores, -np.inf))),
        "inverted-large-negative": _with_weights(lambda scores, mask: softmax(np.where(mask, -1e9, scores))),
        "no-scale": lambda q, k, v, mask: attention(q * math.sqrt(q.shape[-1]), k, v, mask),
        "scale-by-width": lambda q, k, v, mask: attention(q / math.sqrt(q.shape[-1]), k, v, mask),
        "softmax-over-queries": _with_weights(lambda scores, mask: _over(-2, np.where(mask, scores, -np.inf))),
        "keys-mixed": lambda q, k, v, mask: attention(q, k, k, mask),
        "keys-and-values-swapped": lambda q, k, v, mask: attention(q, v, k, mask),
        "leading-axes": lambda q, k, v, mask: attention(q, k.T.swapaxes(-1, -2), v, mask),
        "weights-only": lambda q, k, v, mask: attention(q, k, np.eye(k.shape[-2]), mask),
    },
    properties={
        "empty-row-is-zero": lambda output, q, k, v, mask: not output[..., ~mask.any(-1), :].any(),
        "within-values": lambda output, q, k, v, mask: (abs(output) <= abs(v).max() + 1e-9).all(),
    },
)

COLDEST = Exercise(
    id="dot-product-6",
    solve=coldest_weights,
    cases=lambda rng: [
        (np.array([[0.0, 2.0, 1.0], [3.0, 1.0, 3.0]]),),
        (np.array([[4.0, 4.0, 4.0]]),),
        (rng.integers(-2, 3, (5, 7)).astype(float),),
        (rng.standard_normal((2, 3, 5)) * 1e3,),
    ],
    mistakes={
        "first-winner": lambda scores: np.eye(scores.shape[-1])[scores.argmax(-1)],
        "not-shared": lambda scores: (scores == scores.max(-1, keepdims=True)).astype(float),
        "hot": lambda scores: np.full(scores.shape, 1 / scores.shape[-1]),
        "temperature-one": softmax,
        "overflow": lambda scores: np.exp(scores / 1e-9) / np.exp(scores / 1e-9).sum(-1, keepdims=True),
        "whole-array": lambda scores: (scores == scores.max()) / (scores == scores.max()).sum(),
        "other-axis": lambda scores: coldest_weights(scores.swapaxes(-1, -2)).swapaxes(-1, -2),
    },
    properties={
        "is-positive": lambda weights, scores: (weights >= 0).all(),
        "rows-sum-to-one": _rows_sum_to_one,
        "only-winners": lambda weights, scores: not weights[scores < scores.max(-1, keepdims=True)].any(),
    },
)

BACKWARD = Exercise(
    id="dot-product-7",
    solve=softmax_backward,
    cases=lambda rng: [
        (np.array([[0.5, 0.25, 0.25], [0.25, 0.75, 0.0]]), np.array([[1.0, 0.0, 2.0], [4.0, 0.0, 1.0]])),
        (softmax(rng.standard_normal((5, 5))), rng.standard_normal((5, 5))),
        (softmax(rng.standard_normal((2, 3, 5, 7))), rng.standard_normal((2, 3, 5, 7))),
    ],
    mistakes={
        "diagonal-only": lambda weights, d_weights: weights * (1 - weights) * d_weights,
        "no-subtraction": lambda weights, d_weights: weights * d_weights,
        "plain-sum": lambda weights, d_weights: weights * (d_weights - d_weights.sum(-1, keepdims=True)),
        "plain-mean": lambda weights, d_weights: weights * (d_weights - d_weights.mean(-1, keepdims=True)),
        "keepdims": lambda weights, d_weights: weights * (d_weights - (weights * d_weights).sum(-1)),
        "other-axis": lambda weights, d_weights: weights * (d_weights - (weights * d_weights).sum(-2, keepdims=True)),
        "sign": lambda weights, d_weights: -softmax_backward(weights, d_weights),
        "outer-weights": lambda weights, d_weights: d_weights - (weights * d_weights).sum(-1, keepdims=True),
    },
    properties={
        "rows-sum-to-zero": lambda d_scores, weights, d_weights: (abs(d_scores.sum(-1)) < 1e-9).all(),
        "hidden-stays-still": lambda d_scores, weights, d_weights: not d_scores[weights == 0].any(),
    },
)

EXERCISES = (SOFTMAX, WEIGHTS, CAUSAL, SPREAD, ATTENTION, COLDEST, BACKWARD)
