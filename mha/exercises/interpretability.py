"""What methods that explain compute: rollout, leaving one out, lengths of values, integrated gradients, ranks."""

import numpy as np

from mha.analysis.metrics import rank_correlation
from mha.analysis.rollout import attention_rollout
from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree


def rollout(maps, residual):
    return attention_rollout(maps, residual=residual)[-1]


def leave_one_out(weights, values):
    output = weights @ values
    return output - (output - weights * values) / (1 - weights)


def value_norms(weights, values, w_o):
    return weights * np.linalg.norm(values @ w_o, axis=1)


def integrated_gradients(m, x, baseline):
    return (x - baseline) * ((m + m.T) @ (x + baseline) / 2)


def _maps(layers, n):
    def draw(rng):
        weights = np.tril(rng.uniform(0.1, 1, (layers, n, n)))
        return weights / weights.sum(-1, keepdims=True)

    return draw


def _mixed(maps, residual):
    return residual * np.eye(maps.shape[-1]) + (1 - residual) * maps


def _product(layers):
    found = np.eye(layers.shape[-1])
    for layer in layers:
        found = layer @ found
    return found


ROLLOUT = Exercise(
    id="interpretability-1",
    solve=rollout,
    cases=lambda rng: [
        (np.array([[[1.0, 0.0], [0.75, 0.25]], [[1.0, 0.0], [0.5, 0.5]]]), 0.5),
        (_maps(3, 5)(rng), 0.3),
        (_maps(1, 7)(rng), 0.6),
        (_maps(5, 3)(rng), 0.0),
    ],
    mistakes={
        "upside-down": lambda maps, residual: _product(_mixed(maps, residual)[::-1]),
        "no-skip": lambda maps, residual: _product(maps),
        "shares-swapped": lambda maps, residual: _product(_mixed(maps, 1 - residual)),
        "mean": lambda maps, residual: _mixed(maps, residual).mean(0),
        "elementwise": lambda maps, residual: _mixed(maps, residual).prod(0),
        "one-skip": lambda maps, residual: _mixed(_product(maps), residual),
        "last-layer": lambda maps, residual: _mixed(maps, residual)[-1],
        "transposed": lambda maps, residual: rollout(maps, residual).T,
    },
    properties={
        "rows-sum-to-one": lambda found, maps, residual: agree(found.sum(-1), np.ones(len(found)), 1e-9),
        "no-future": lambda found, maps, residual: not np.triu(found, 1).any(),
    },
)


def _attended(n):
    def draw(rng):
        weights = rng.uniform(0.1, 1, n)
        return weights / weights.sum(), rng.normal(size=n)

    return draw


def _remaining(weights, values):
    return (weights @ values - weights * values) / (1 - weights)


LEAVE_ONE_OUT = Exercise(
    id="interpretability-2",
    solve=leave_one_out,
    cases=lambda rng: [
        (np.array([0.75, 0.25]), np.array([3.0, 3.0])),
        (np.array([0.75, 0.25]), np.array([0.0, 8.0])),
        (np.array([0.5, 0.25, 0.25]), np.array([1.0, -2.0, 4.0])),
        _attended(7)(rng),
    ],
    mistakes={
        "not-shared-out": lambda weights, values: weights * values,
        "what-is-left": _remaining,
        "sign": lambda weights, values: _remaining(weights, values) - weights @ values,
        "size": lambda weights, values: abs(leave_one_out(weights, values)),
        "weights": lambda weights, values: weights.copy(),
        "shrunk": lambda weights, values: weights @ values - (weights @ values - weights * values) * (1 - weights),
        "divided-by-own": lambda weights, values: weights @ values - (weights @ values - weights * values) / weights,
    },
    properties={
        "alike-values": lambda effects, weights, values: (
            np.ptp(values) > 0 or agree(effects, np.zeros(len(effects)), 1e-9)
        ),
    },
)


def _head(n, d, m):
    def draw(rng):
        weights = rng.uniform(0.1, 1, n)
        return weights / weights.sum(), rng.normal(size=(n, d)), rng.normal(size=(d, m))

    return draw


VALUE_NORMS = Exercise(
    id="interpretability-3",
    solve=value_norms,
    cases=lambda rng: [
        (np.array([0.75, 0.25]), np.array([[0.0, 3.0], [4.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 0.0]])),
        _head(5, 3, 7)(rng),
        _head(7, 4, 4)(rng),
    ],
    mistakes={
        "before-output": lambda weights, values, w_o: weights * np.linalg.norm(values, axis=1),
        "without-weights": lambda weights, values, w_o: np.linalg.norm(values @ w_o, axis=1),
        "weights": lambda weights, values, w_o: weights.copy(),
        "squared": lambda weights, values, w_o: weights * np.square(values @ w_o).sum(1),
        "absolute": lambda weights, values, w_o: weights * abs(values @ w_o).sum(1),
        "product-of-lengths": lambda weights, values, w_o: (
            weights * np.linalg.norm(values, axis=1) * np.linalg.norm(w_o)
        ),
        "shares": lambda weights, values, w_o: (
            value_norms(weights, values, w_o) / value_norms(weights, values, w_o).sum()
        ),
        "all-together": lambda weights, values, w_o: np.linalg.norm(weights @ values @ w_o),
    },
    properties={
        "not-negative": lambda lengths, weights, values, w_o: (lengths >= 0).all(),
    },
)


def _quadratic(n):
    return lambda rng: (rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n))


INTEGRATED = Exercise(
    id="interpretability-4",
    solve=integrated_gradients,
    cases=lambda rng: [
        (np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([1.0, 3.0]), np.array([0.0, 1.0])),
        _quadratic(5)(rng),
        _quadratic(3)(rng),
    ],
    mistakes={
        "gradient-at-the-end": lambda m, x, baseline: (x - baseline) * ((m + m.T) @ x),
        "gradient-at-the-start": lambda m, x, baseline: (x - baseline) * ((m + m.T) @ baseline),
        "times-input": lambda m, x, baseline: x * ((m + m.T) @ (x + baseline) / 2),
        "gradient-times-input": lambda m, x, baseline: x * ((m + m.T) @ x),
        "one-side": lambda m, x, baseline: (x - baseline) * (m @ (x + baseline)),
        "other-side": lambda m, x, baseline: (x - baseline) * (m.T @ (x + baseline)),
        "mean-gradient": lambda m, x, baseline: (m + m.T) @ (x + baseline) / 2,
        "backwards": lambda m, x, baseline: -integrated_gradients(m, x, baseline),
        "in-all": lambda m, x, baseline: x @ m @ x - baseline @ m @ baseline,
    },
    properties={
        "complete": lambda found, m, x, baseline: agree(found.sum(), x @ m @ x - baseline @ m @ baseline, 1e-9),
    },
)


def _ranks(x):
    return np.argsort(np.argsort(x))


def _order_correlation(x, y):
    return np.corrcoef(np.argsort(x), np.argsort(y))[0, 1]


def _pairs_in_order(x, y):
    i, j = np.triu_indices(len(x), 1)
    return np.sign((x[i] - x[j]) * (y[i] - y[j])).mean()


def _by_differences(x, y, *, times=6.0, power=3):
    n = len(x)
    return 1 - times * np.square(_ranks(x) - _ranks(y)).sum() / (n**power - n)


RANKS = Exercise(
    id="interpretability-5",
    solve=rank_correlation,
    cases=lambda rng: [
        (np.array([0.1, 0.7, 0.2, 5.0]), np.array([3.0, 9.0, 1.0, 2.0])),
        (rng.normal(size=7), rng.normal(size=7)),
        (np.exp(3 * rng.normal(size=11)), rng.normal(size=11)),
    ],
    mistakes={
        "of-the-numbers": lambda x, y: np.corrcoef(x, y)[0, 1],
        "argsort-once": _order_correlation,
        "pairs": _pairs_in_order,
        "covariance": lambda x, y: np.cov(_ranks(x), _ranks(y))[0, 1],
        "without-mean": lambda x, y: _ranks(x) @ _ranks(y) / (np.linalg.norm(_ranks(x)) * np.linalg.norm(_ranks(y))),
        "three-for-six": lambda x, y: _by_differences(x, y, times=3.0),
        "opposite": lambda x, y: -rank_correlation(x, y),
    },
    properties={
        "between": lambda found, x, y: abs(found) <= 1 + 1e-9,
    },
)

TOKENS, LAYERS = 4, 3

KEPT = Exercise(
    id="interpretability-6",
    solve=lambda: 0.5**LAYERS + (1 - 0.5**LAYERS) / TOKENS,
    mistakes={
        "skip-alone": lambda: 0.5**LAYERS,
        "map-alone": lambda: 1 / TOKENS,
        "one-layer": lambda: 0.5 + 0.5 / TOKENS,
        "product-of-diagonals": lambda: (0.5 + 0.5 / TOKENS) ** LAYERS,
        "others": lambda: (1 - 0.5**LAYERS) / TOKENS,
        "all-others": lambda: (1 - 0.5**LAYERS) * (TOKENS - 1) / TOKENS,
        "two-layers": lambda: 0.5 ** (LAYERS - 1) + (1 - 0.5 ** (LAYERS - 1)) / TOKENS,
    },
)

EXERCISES = (ROLLOUT, LEAVE_ONE_OUT, VALUE_NORMS, INTEGRATED, RANKS, KEPT)
