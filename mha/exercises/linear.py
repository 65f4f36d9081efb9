"""Linear attention: the product reordered, positive features, what a decay leaves, a correction, and where it pays."""

import math

import numpy as np

from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree
from mha.reference import delta_rule, positive_features


def reordered(q, k, v):
    return q @ (k.T @ v) / (q @ k.sum(0))[:, None]


def half_life(h):
    return np.log(0.5) / np.log1p(-(2.0 ** (-5.0 - h)))


def delta_step(state, k, v, beta):
    one = np.ones((1, 1))
    rows = (x[None, None] for x in (k, k, v))
    return delta_rule(*rows, beta * one, state=state[None])[1][0]


def _average(weights):
    return lambda q, k, v: weights(q @ k.T) @ v


def _features(n, d, e):
    return lambda rng: (rng.random((n, d)) + 0.1, rng.random((n, d)) + 0.1, rng.standard_normal((n, e)))


REORDERED = Exercise(
    id="linear-1",
    solve=reordered,
    cases=lambda rng: [_features(5, 3, 2)(rng), _features(7, 4, 4)(rng), _features(1, 2, 3)(rng)],
    mistakes={
        "not-divided": lambda q, k, v: q @ (k.T @ v),
        "softmax": _average(lambda s: np.exp(s) / np.exp(s).sum(-1, keepdims=True)),
        "divided-by-number": lambda q, k, v: q @ (k.T @ v) / len(k),
        "divided-by-keys": lambda q, k, v: q @ (k.T @ v) / k.sum(),
        "divided-by-column": _average(lambda s: s / s.sum(0)),
        "causal": _average(lambda s: np.tril(s) / np.tril(s).sum(-1, keepdims=True)),
        "mean-of-values": lambda q, k, v: np.tile(v.mean(0), (len(q), 1)),
    },
    properties={
        "between-the-values": lambda output, q, k, v: (
            (output <= v.max(0) + 1e-9).all() and (output >= v.min(0) - 1e-9).all()
        ),
    },
)

FEATURES = Exercise(
    id="linear-2",
    solve=positive_features,
    cases=lambda rng: [
        (np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])),
        (rng.standard_normal((5, 3)), rng.standard_normal((7, 3))),
        (rng.standard_normal((4, 4)), rng.standard_normal((4, 4))),
    ],
    mistakes={
        "length-forgotten": lambda x, w: np.exp(x @ w.T) / math.sqrt(len(w)),
        "length-not-halved": lambda x, w: np.exp(x @ w.T - (x**2).sum(-1, keepdims=True)) / math.sqrt(len(w)),
        "length-added": lambda x, w: np.exp(x @ w.T + (x**2).sum(-1, keepdims=True) / 2) / math.sqrt(len(w)),
        "length-not-squared": lambda x, w: (
            np.exp(x @ w.T - np.linalg.norm(x, axis=-1, keepdims=True) / 2) / math.sqrt(len(w))
        ),
        "not-scaled": lambda x, w: positive_features(x, w) * math.sqrt(len(w)),
        "divided-by-number": lambda x, w: positive_features(x, w) / math.sqrt(len(w)),
        "root-of-width": lambda x, w: positive_features(x, w) * math.sqrt(len(w) / x.shape[-1]),
        "length-of-direction": lambda x, w: np.exp(x @ w.T - (w**2).sum(-1) / 2) / math.sqrt(len(w)),
        "cosines": lambda x, w: np.exp((x**2).sum(-1, keepdims=True) / 2) * np.cos(x @ w.T) / math.sqrt(len(w)),
        "directions-first": lambda x, w: positive_features(x, w).T,
    },
    properties={"positive": lambda output, x, w: (output > 0).all()},
)

HALF_LIFE = Exercise(
    id="linear-3",
    solve=half_life,
    cases=lambda rng: [(np.arange(4.0),), (np.array([0.0]),), (np.array([3.0, 11.0, 7.0]),)],
    mistakes={
        "from-one": lambda h: half_life(h - 1),
        "time-constant": lambda h: -1 / np.log1p(-(2.0 ** (-5.0 - h))),
        "reciprocal": lambda h: 2.0 ** (5.0 + h),
        "halved-reciprocal": lambda h: 2.0 ** (4.0 + h),
        "rounded": lambda h: np.round(half_life(h)),
        "logarithm-to-two": lambda h: np.log(0.5) / np.log2(1 - 2.0 ** (-5.0 - h)),
        "negative": lambda h: -half_life(h),
        "for-small-factors": lambda h: math.log(2) * 2.0 ** (5.0 + h),
    },
    properties={
        "longer-with-each-head": lambda output, h: (np.argsort(output, kind="stable") == np.argsort(h)).all(),
    },
    tolerance=1e-9,
)


def _memory(d, e, beta):
    def case(rng):
        k = rng.standard_normal(d)
        return rng.standard_normal((d, e)), k / np.linalg.norm(k), rng.standard_normal(e), beta

    return case


DELTA = Exercise(
    id="linear-4",
    solve=delta_step,
    cases=lambda rng: [_memory(3, 2, 1.0)(rng), _memory(5, 4, 0.3)(rng), _memory(4, 4, 0.7)(rng)],
    mistakes={
        "added": lambda state, k, v, beta: state + beta * np.outer(k, v),
        "share-of-the-value": lambda state, k, v, beta: state + np.outer(k, beta * v - k @ state),
        "share-of-the-past": lambda state, k, v, beta: state + np.outer(k, v - beta * (k @ state)),
        "no-share": lambda state, k, v, beta: state + np.outer(k, v - k @ state),
        "everything-fades": lambda state, k, v, beta: (1 - beta) * state + beta * np.outer(k, v),
        "sign": lambda state, k, v, beta: state - beta * np.outer(k, v - k @ state),
        "erased-only": lambda state, k, v, beta: state - beta * np.outer(k, k @ state),
        "share-twice": lambda state, k, v, beta: state + beta**2 * np.outer(k, v - k @ state),
    },
    properties={
        "elsewhere-unchanged": lambda output, state, k, v, beta: agree(
            output - np.outer(k, k @ output), state - np.outer(k, k @ state), 1e-9
        ),
    },
)

LONGEST = 2 * 256  # of width d, a score and a mix of n keys: 2 n d; two features maps, a write and a read: 4 m d

OVERTAKES = Exercise(
    id="linear-5",
    solve=lambda: LONGEST + 1,
    mistakes={
        "at-equality": lambda: LONGEST,
        "features-for-free": lambda: 256 + 1,
        "features-for-free-at-equality": lambda: 256,
        "one-map": lambda: 3 * 256 // 2 + 1,
        "scores-only": lambda: 4 * 256 + 1,
        "times-width": lambda: LONGEST * 64 + 1,
        "squared": lambda: 256**2 + 1,
        "width-of-a-head": lambda: 2 * 64 + 1,
    },
)

EXERCISES = (REORDERED, FEATURES, HALF_LIFE, DELTA, OVERTAKES)
