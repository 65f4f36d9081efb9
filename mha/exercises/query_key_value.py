"""Queries, keys and values: the soft lookup, and attention within one sequence and between two."""

import math

import numpy as np

from mha import reference
from mha.exercises.dot_product import softmax
from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree


def soft_lookup(queries, keys, values, temperature):
    return reference.soft_lookup(queries, keys, values, temperature=temperature)


def self_attention(x, w_q, w_k, w_v):
    return reference.self_attention(x, w_q, w_k, w_v)


def cross_attention(x, context, w_q, w_k, w_v):
    return reference.cross_attention(x, context, w_q, w_k, w_v)


def put_back(output, order):
    return output[np.argsort(order)]


def _normal(rng, *shapes):
    return tuple(rng.standard_normal(shape) for shape in shapes)


def _unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _unstable_lookup(queries, keys, values, temperature):
    shares = np.exp(queries @ keys.T / temperature)
    return shares / shares.sum(-1, keepdims=True) @ values


LOOKUP = Exercise(
    id="query-key-value-1",
    solve=soft_lookup,
    cases=lambda rng: [
        (np.array([[1.0, 0.0], [0.0, 2.0]]), np.eye(2), np.array([[10.0], [20.0]]), 0.5),
        (*_normal(rng, (5, 3), (7, 3), (7, 2)), 1.0),
        (*_normal(rng, (3, 5), (2, 5), (2, 5)), 4.0),
        (*(100 * x for x in _normal(rng, (5, 3), (7, 3), (7, 2))), 0.1),
    ],
    mistakes={
        "temperature-upside-down": lambda q, k, v, temperature: soft_lookup(q, k, v, 1 / temperature),
        "no-temperature": lambda q, k, v, temperature: soft_lookup(q, k, v, 1.0),
        "extra-scale": lambda q, k, v, temperature: soft_lookup(q, k, v, temperature * math.sqrt(q.shape[-1])),
        "hard": lambda q, k, v, temperature: soft_lookup(q, k, v, 0),
        "weights-only": lambda q, k, v, temperature: softmax(q @ k.T / temperature),
        "softmax-over-queries": lambda q, k, v, temperature: softmax((q @ k.T / temperature).T).T @ v,
        "keys-mixed": lambda q, k, v, temperature: soft_lookup(q, k, k, temperature),
        "cosine": lambda q, k, v, temperature: soft_lookup(_unit(q), _unit(k), v, temperature),
        "not-normalised": lambda q, k, v, temperature: np.exp(q @ k.T / temperature) @ v,
        "unstable": _unstable_lookup,
    },
    properties={
        "within-values": lambda answers, queries, keys, values, temperature: (
            (answers >= values.min(0) - 1e-9) & (answers <= values.max(0) + 1e-9)
        ).all(),
    },
)


def _sequence(rng, n, width, d_k, d_v):
    return rng.standard_normal((n, width)), *_normal(rng, (width, d_k), (width, d_k), (width, d_v))


def _from(x, w_q, w_k, w_v, scale=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return softmax(q @ k.T * (q.shape[-1] ** -0.5 if scale is None else scale)) @ v


SELF = Exercise(
    id="query-key-value-2",
    solve=self_attention,
    cases=lambda rng: [
        _sequence(rng, 1, 3, 2, 5),
        (np.array([[1.0, 0.0], [0.0, 2.0]]), np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0], [3.0]])),
        _sequence(rng, 5, 7, 3, 2),
        _sequence(rng, 7, 5, 5, 5),
    ],
    mistakes={
        "queries-and-keys-swapped": lambda x, w_q, w_k, w_v: _from(x, w_k, w_q, w_v),
        "no-scale": lambda x, w_q, w_k, w_v: _from(x, w_q, w_k, w_v, scale=1.0),
        "scale-by-input-width": lambda x, w_q, w_k, w_v: _from(x, w_q, w_k, w_v, scale=x.shape[-1] ** -0.5),
        "scale-by-length": lambda x, w_q, w_k, w_v: _from(x, w_q, w_k, w_v, scale=len(x) ** -0.5),
        "values-not-projected": lambda x, w_q, w_k, w_v: _from(x, w_q, w_k, np.eye(x.shape[-1])),
        "only-values-projected": lambda x, w_q, w_k, w_v: _from(x, np.eye(x.shape[-1]), np.eye(x.shape[-1]), w_v),
        "one-projection": lambda x, w_q, w_k, w_v: _from(x, w_q, w_q, w_v),
        "softmax-over-queries": lambda x, w_q, w_k, w_v: (
            softmax(((x @ w_q) @ (x @ w_k).T).T / math.sqrt(w_q.shape[-1])).T @ (x @ w_v)
        ),
        "weights-only": lambda x, w_q, w_k, w_v: softmax((x @ w_q) @ (x @ w_k).T / math.sqrt(w_q.shape[-1])),
        "transposed-projections": lambda x, w_q, w_k, w_v: _from(x, w_q.T, w_k.T, w_v.T),
    },
    properties={
        "one-position": lambda output, x, w_q, w_k, w_v: len(x) > 1 or agree(output, x @ w_v, 1e-9),
    },
)


def _crossed(queries_from, keys_from, values_from, w_q, w_k, w_v):
    q, k = queries_from @ w_q, keys_from @ w_k
    return softmax(q @ k.T / math.sqrt(q.shape[-1])) @ (values_from @ w_v)


def _pair(rng, n, m, width, d_k, d_v):
    return *_normal(rng, (n, width), (m, width)), *_normal(rng, (width, d_k), (width, d_k), (width, d_v))


CROSS = Exercise(
    id="query-key-value-3",
    solve=cross_attention,
    cases=lambda rng: [
        (np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 3.0]]), np.eye(2), np.eye(2), np.array([[2.0], [5.0]])),
        _pair(rng, 5, 3, 7, 3, 2),
        _pair(rng, 3, 5, 2, 7, 3),
        _pair(rng, 5, 5, 3, 3, 3),
    ],
    mistakes={
        "self": lambda x, context, *weights: _crossed(x, x, x, *weights),
        "self-of-context": lambda x, context, *weights: _crossed(context, context, context, *weights),
        "roles-reversed": lambda x, context, *weights: _crossed(context, x, x, *weights),
        "values-from-x": lambda x, context, *weights: _crossed(x, context, x, *weights),
        "keys-from-x": lambda x, context, *weights: _crossed(x, x, context, *weights),
        "one-long-sequence": lambda x, context, *weights: _crossed(
            x, np.concatenate([x, context]), np.concatenate([x, context]), *weights
        ),
        "no-scale": lambda x, context, w_q, w_k, w_v: softmax((x @ w_q) @ (context @ w_k).T) @ (context @ w_v),
        "weights-only": lambda x, context, w_q, w_k, w_v: softmax(
            (x @ w_q) @ (context @ w_k).T / math.sqrt(w_q.shape[-1])
        ),
    },
)

TEMPERATURE = Exercise(
    id="query-key-value-4",
    solve=lambda: 1 / math.log(9),
    mistakes={
        "upside-down": lambda: math.log(9),
        "share-for-ratio": lambda: 1 / math.log(10),
        "logarithm-of-share": lambda: -1 / math.log(0.9),
        "base-ten": lambda: 1 / math.log10(9),
        "no-exponential": lambda: 1 / 9,
        "ratio-alone": lambda: 9.0,
    },
    tolerance=5e-3,
)

PUT_BACK = Exercise(
    id="query-key-value-5",
    solve=put_back,
    cases=lambda rng: [
        (np.array([[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]]), np.array([2, 0, 1])),
        (rng.standard_normal((5, 3)), np.array([3, 0, 4, 1, 2])),
        (rng.standard_normal((7, 2)), np.array([1, 2, 3, 4, 5, 6, 0])),
    ],
    mistakes={
        "order-again": lambda output, order: output[order],
        "unchanged": lambda output, order: output.copy(),
        "reversed": lambda output, order: output[::-1],
        "sorted-rows": lambda output, order: output[np.argsort(output[:, 0])],
        "columns": lambda output, order: output[:, np.argsort(order) % output.shape[1]],
    },
    properties={
        "same-rows": lambda found, output, order: agree(np.sort(found.sum(-1)), np.sort(output.sum(-1)), 1e-9),
    },
)

EXERCISES = (LOOKUP, SELF, CROSS, TEMPERATURE, PUT_BACK)
