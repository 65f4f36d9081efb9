"""The backward pass: the softmax Jacobian, the gradient of the queries, weights made again from lse."""

import math

import numpy as np

from mha import reference
from mha.exercises.dot_product import softmax
from mha.exercises.exercise import Exercise

EPSILON = 2.0**-52


def softmax_jacobian(weights):
    return reference.softmax_jacobian(weights)


def query_gradient(q, k, v, d_output):
    return reference.attention_backward(q[None], k[None], v[None], d_output[None]).q[0]


def weights_again(q, k, lse):
    return np.exp(q @ k.T / math.sqrt(q.shape[-1]) - lse[:, None])


JACOBIAN = Exercise(
    id="gradients-1",
    solve=softmax_jacobian,
    cases=lambda rng: [
        (np.array([0.5, 0.25, 0.25]),),
        (np.array([1.0, 0.0]),),
        (softmax(rng.standard_normal(5)),),
        (np.ones(1),),
    ],
    mistakes={
        "diagonal-only": lambda p: np.diag(p),
        "own-score-only": lambda p: np.diag(p * (1 - p)),
        "outer-only": lambda p: -np.outer(p, p),
        "plus": lambda p: np.diag(p) + np.outer(p, p),
        "sign": lambda p: np.outer(p, p) - np.diag(p),
        "sigmoid": lambda p: np.outer(p, 1 - p),
        "no-outer": lambda p: np.diag(p) - p * p,
        "identity": lambda p: np.eye(len(p)) - np.outer(p, p),
    },
    properties={
        "is-symmetric": lambda found, p: (abs(found - found.T) < 1e-9).all(),
        "rows-sum-to-zero": lambda found, p: (abs(found.sum(-1)) < 1e-9).all(),
    },
)


def _parts(q, k, v, d_output):
    weights = softmax(q @ k.T / math.sqrt(q.shape[-1]))
    d_weights = d_output @ v.T
    mean = (weights * d_weights).sum(-1, keepdims=True)
    return weights, d_weights, mean, math.sqrt(q.shape[-1])


def _query_gradient(d_scores):
    """Build a wrong gradient of the queries from a wrong gradient of the scores."""

    def query_gradient(q, k, v, d_output):
        weights, d_weights, mean, root = _parts(q, k, v, d_output)
        return d_scores(weights, d_weights, mean) @ k / root

    return query_gradient


def _without_scale(q, k, v, d_output):
    return query_gradient(q, k, v, d_output) * math.sqrt(q.shape[-1])


def _scaled_twice(q, k, v, d_output):
    return query_gradient(q, k, v, d_output) / math.sqrt(q.shape[-1])


def _unscaled_scores(q, k, v, d_output):
    weights, d_weights = softmax(q @ k.T), d_output @ v.T
    return weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True)) @ k / math.sqrt(q.shape[-1])


def _is_spanned_by(rows, basis):
    """Whether each row is a sum of multiples of the rows of `basis`."""
    multiples = np.linalg.lstsq(basis.T, rows.T)[0]
    return (abs(basis.T @ multiples - rows.T) < 1e-9).all()


QUERIES = Exercise(
    id="gradients-2",
    solve=query_gradient,
    cases=lambda rng: [
        tuple(rng.integers(-2, 3, shape).astype(float) for shape in ((2, 4), (3, 4), (3, 2), (2, 2))),
        tuple(rng.standard_normal(shape) for shape in ((5, 3), (7, 3), (7, 2), (5, 2))),
        tuple(rng.standard_normal(shape) for shape in ((5, 5), (5, 5), (5, 5), (5, 5))),
    ],
    mistakes={
        "no-scale": _without_scale,
        "scaled-twice": _scaled_twice,
        "unscaled-scores": _unscaled_scores,
        "no-mean": _query_gradient(lambda weights, d_weights, mean: weights * d_weights),
        "softmax-skipped": _query_gradient(lambda weights, d_weights, mean: d_weights),
        "plain-mean": _query_gradient(
            lambda weights, d_weights, mean: weights * (d_weights - d_weights.mean(-1, keepdims=True))
        ),
        "outer-weights": _query_gradient(lambda weights, d_weights, mean: d_weights - mean),
        "diagonal-only": _query_gradient(lambda weights, d_weights, mean: weights * (1 - weights) * d_weights),
        "sign": lambda q, k, v, d_output: -query_gradient(q, k, v, d_output),
    },
    properties={
        "differences-of-keys": lambda found, q, k, v, d_output: _is_spanned_by(found, k[1:] - k[0]),
    },
)

AGAIN = Exercise(
    id="gradients-3",
    solve=weights_again,
    cases=lambda rng: [
        (q, k, np.log(np.exp(q @ k.T / math.sqrt(q.shape[-1])).sum(-1)))
        for q, k in (
            (np.array([[1.0, 0, 0, 2]]), np.array([[2.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]])),
            (rng.standard_normal((5, 3)), rng.standard_normal((7, 3))),
            (rng.standard_normal((5, 5)), rng.standard_normal((5, 5))),
        )
    ],
    mistakes={
        "no-scale": lambda q, k, lse: np.exp(q @ k.T - lse[:, None]),
        "divided-by-lse": lambda q, k, lse: np.exp(q @ k.T / math.sqrt(q.shape[-1])) / lse[:, None],
        "lse-ignored": lambda q, k, lse: np.exp(q @ k.T / math.sqrt(q.shape[-1])),
        "lse-by-key": lambda q, k, lse: np.exp(q @ k.T / math.sqrt(q.shape[-1]) - np.resize(lse, len(k))),
        "lse-added": lambda q, k, lse: np.exp(q @ k.T / math.sqrt(q.shape[-1]) + lse[:, None]),
        "no-exponential": lambda q, k, lse: q @ k.T / math.sqrt(q.shape[-1]) - lse[:, None],
    },
    properties={
        "rows-sum-to-one": lambda weights, q, k, lse: (abs(weights.sum(-1) - 1) < 1e-9).all(),
    },
)

STEP = Exercise(
    id="gradients-4",
    solve=lambda: 1e6 * (3 * EPSILON) ** (1 / 3),
    mistakes={
        "other-unit": lambda: (3 * EPSILON) ** (1 / 3),
        "square-root": lambda: 1e6 * EPSILON**0.5,
        "forward-difference": lambda: 1e6 * (2 * EPSILON) ** 0.5,
        "constant-lost": lambda: 1e6 * EPSILON ** (1 / 3),
        "sixth": lambda: 1e6 * (6 * EPSILON) ** (1 / 3),
        "upside-down": lambda: 1e6 * (EPSILON / 3) ** (1 / 3),
    },
    tolerance=5e-3,
)

GAP = Exercise(
    id="gradients-5",
    solve=lambda: 2 * math.acosh(math.sqrt(10)),
    mistakes={
        "tail-only": lambda: math.log(10),
        "tail-of-quarter": lambda: math.log(40),
        "one-tenth-of-one": lambda: 2 * math.acosh(math.sqrt(2.5)),
        "weight-nine-tenths": lambda: math.log(9),
        "half-the-gap": lambda: math.acosh(math.sqrt(10)),
    },
    tolerance=5e-3,
)

EXERCISES = (JACOBIAN, QUERIES, AGAIN, STEP, GAP)
