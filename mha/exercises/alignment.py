"""Alignment: the additive score, a context vector behind padding, a local window, one step, parameters."""

import numpy as np

from mha.exercises.dot_product import softmax
from mha.exercises.exercise import Exercise
from mha.reference import additive_scores


def context_vectors(scores, values, keep):
    return softmax(np.where(keep, scores, -np.inf)) @ values


def local_weights(scores, centers, window):
    distance = np.arange(scores.shape[1]) - centers[:, None]
    near = np.where(np.abs(distance) <= window, scores, -np.inf)
    return softmax(near) * np.exp(-2 * (distance / window) ** 2)


def next_context(state, memory, keys, w_q, v):
    return softmax(np.tanh(state @ w_q + keys) @ v) @ memory


def _sums(q, k, w_q, w_k):
    return (q @ w_q)[:, None] + (k @ w_k)[None]


def _rows(*shapes):
    return lambda rng: tuple(rng.standard_normal(shape) for shape in shapes)


SCORES = Exercise(
    id="alignment-1",
    solve=additive_scores,
    cases=lambda rng: [
        (np.log([[3.0]]) / 2, np.log([[1.0], [3.0]]) / 2, np.eye(1), np.eye(1), np.array([10.0])),
        _rows((2, 3), (5, 7), (3, 11), (7, 11), 11)(rng),
        _rows((5, 2), (3, 2), (2, 2), (2, 2), 2)(rng),
    ],
    mistakes={
        "no-tanh": lambda q, k, w_q, w_k, v: _sums(q, k, w_q, w_k) @ v,
        "tanh-of-each": lambda q, k, w_q, w_k, v: (np.tanh(q @ w_q)[:, None] + np.tanh(k @ w_k)) @ v,
        "tanh-of-scores": lambda q, k, w_q, w_k, v: np.tanh(_sums(q, k, w_q, w_k) @ v),
        "multiplied": lambda q, k, w_q, w_k, v: np.tanh((q @ w_q)[:, None] * (k @ w_k)) @ v,
        "summed": lambda q, k, w_q, w_k, v: np.tanh(_sums(q, k, w_q, w_k)).sum(-1),
        "transposed": lambda q, k, w_q, w_k, v: additive_scores(q, k, w_q, w_k, v).T,
        "softmaxed": lambda q, k, w_q, w_k, v: softmax(additive_scores(q, k, w_q, w_k, v)),
        "scaled": lambda q, k, w_q, w_k, v: additive_scores(q, k, w_q, w_k, v) / np.sqrt(len(v)),
    },
    properties={
        "bounded": lambda output, q, k, w_q, w_k, v: (np.abs(output) <= np.abs(v).sum() + 1e-9).all(),
    },
)

CONTEXT = Exercise(
    id="alignment-2",
    solve=context_vectors,
    cases=lambda rng: [
        (np.log([[1.0, 3.0, 5.0]]), np.array([[4.0], [8.0], [100.0]]), np.array([True, True, False])),
        (*_rows((3, 5), (5, 2))(rng), np.array([True, False, True, True, False])),
        (*_rows((2, 4), (4, 3))(rng), np.ones(4, bool)),
    ],
    mistakes={
        "padding-seen": lambda scores, values, keep: softmax(scores) @ values,
        "scores-set-to-zero": lambda scores, values, keep: softmax(np.where(keep, scores, 0.0)) @ values,
        "not-renormalised": lambda scores, values, keep: (softmax(scores) * keep) @ values,
        "hidden-kept": lambda scores, values, keep: softmax(np.where(keep, -np.inf, scores)) @ values,
        "no-softmax": lambda scores, values, keep: np.where(keep, scores, 0.0) @ values,
        "mean": lambda scores, values, keep: np.tile(values[keep].mean(0), (len(scores), 1)),
        "softmax-over-steps": lambda scores, values, keep: (softmax(scores.T).T * keep) @ values,
        "best-only": lambda scores, values, keep: values[np.where(keep, scores, -np.inf).argmax(-1)],
    },
    properties={
        "within-values": lambda output, scores, values, keep: (
            (output >= values[keep].min(0) - 1e-9) & (output <= values[keep].max(0) + 1e-9)
        ).all(),
    },
)


def _units(scores, centers, window):
    """Return how far each key stands from each centre, in half widths."""
    return (np.arange(scores.shape[1]) - centers[:, None]) / window


def _weighed(gaussian):
    """Build wrong local weights from a wrong bell of distances in half widths."""

    def local_weights(scores, centers, window):
        x = _units(scores, centers, window)
        return softmax(np.where(np.abs(x) <= 1, scores, -np.inf)) * gaussian(x)

    return local_weights


def _cut_after_softmax(scores, centers, window):
    x = _units(scores, centers, window)
    return softmax(scores) * np.exp(-2 * x**2) * (np.abs(x) <= 1)


def _renormalised(scores, centers, window):
    weights = local_weights(scores, centers, window)
    return weights / weights.sum(-1, keepdims=True)


LOCAL = Exercise(
    id="alignment-3",
    solve=local_weights,
    cases=lambda rng: [
        (np.zeros((1, 5)), np.array([1.4]), 2.0),
        (rng.standard_normal((3, 11)), np.array([0.0, 4.3, 9.6]), 2.0),
        (rng.standard_normal((2, 7)), np.array([3.0, 6.0]), 3.0),
    ],
    mistakes={
        "wide-bell": _weighed(lambda x: np.exp(-(x**2) / 2)),
        "no-half": _weighed(lambda x: np.exp(-4 * x**2)),
        "not-squared": _weighed(lambda x: np.exp(-2 * np.abs(x))),
        "no-bell": _weighed(np.ones_like),
        "no-window": lambda *given: softmax(given[0]) * np.exp(-2 * _units(*given) ** 2),
        "window-after-softmax": _cut_after_softmax,
        "renormalised": _renormalised,
        "rounded-center": lambda scores, centers, window: local_weights(scores, np.round(centers), window),
        "normalised-bell": lambda scores, centers, window: (
            local_weights(scores, centers, window) / (window / 2 * np.sqrt(2 * np.pi))
        ),
    },
    properties={
        "outside-is-zero": lambda output, *given: (output[np.abs(_units(*given)) > 1] == 0).all(),
        "at-most-one": lambda output, *given: (output.sum(-1) <= 1 + 1e-9).all(),
    },
)

STEP = Exercise(
    id="alignment-4",
    solve=next_context,
    cases=lambda rng: [
        (np.zeros(1), np.array([[4.0], [8.0]]), np.log([[3.0], [9.0]]) / 2, np.eye(1), np.log([3.0]) / 0.3),
        _rows(3, (5, 7), (5, 7), (3, 7), 7)(rng),
        _rows(2, (7, 3), (7, 5), (2, 5), 5)(rng),
    ],
    mistakes={
        "keys-mixed": lambda state, memory, keys, w_q, v: softmax(np.tanh(state @ w_q + keys) @ v) @ keys,
        "no-state": lambda state, memory, keys, w_q, v: softmax(np.tanh(keys) @ v) @ memory,
        "no-tanh": lambda state, memory, keys, w_q, v: softmax((state @ w_q + keys) @ v) @ memory,
        "no-softmax": lambda state, memory, keys, w_q, v: np.tanh(state @ w_q + keys) @ v @ memory,
        "mean": lambda state, memory, keys, w_q, v: memory.mean(0),
        "last-state": lambda state, memory, keys, w_q, v: memory[-1],
        "weights": lambda state, memory, keys, w_q, v: softmax(np.tanh(state @ w_q + keys) @ v),
    },
    properties={
        "within-memory": lambda output, state, memory, keys, w_q, v: (
            (output >= memory.min(0) - 1e-9) & (output <= memory.max(0) + 1e-9)
        ).all(),
    },
)

PARAMETERS = Exercise(
    id="alignment-5",
    solve=lambda: 1000 * 1000 + 2000 * 1000 + 1000,
    mistakes={
        "no-combine": lambda: 1000 * 1000 + 2000 * 1000,
        "one-direction": lambda: 1000 * 1000 + 1000 * 1000 + 1000,
        "general": lambda: 1000 * 2000,
        "with-biases": lambda: 1000 * 1000 + 2000 * 1000 + 1000 + 1000 + 1,
        "state-only": lambda: 1000 * 1000 + 1000,
        "in-millions": lambda: 3.001,
    },
    tolerance=1e-12,
)

EXERCISES = (SCORES, CONTEXT, LOCAL, STEP, PARAMETERS)
