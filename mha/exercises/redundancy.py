"""Redundant heads: how far apart two maps are, how alike two outputs, the nearest head, and what two do together."""

import numpy as np

from mha.analysis.similarity import js_distance, linear_cka
from mha.exercises.exercise import Exercise


def nearest_heads(distances):
    return np.where(np.eye(len(distances), dtype=bool), np.inf, distances).argmin(1)


def interaction(whole, without_a, without_b, without_both):
    return without_both - without_a - without_b + whole


def output_without(heads, w_o, bias, silent):
    kept = np.array([head not in silent for head in range(len(heads))])
    return np.einsum("hnd,hdm->nm", heads * kept[:, None, None], w_o.reshape(len(heads), -1, w_o.shape[1])) + bias


def _maps(rng, n, keys):
    powers = np.exp(2 * rng.standard_normal((2, n, keys)))
    return tuple(powers / powers.sum(-1, keepdims=True))


def _bits(p):
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1)


def _divergences(a, b):
    return np.maximum(_bits((a + b) / 2) - (_bits(a) + _bits(b)) / 2, 0.0)


DISTANCE = Exercise(
    id="redundancy-1",
    solve=lambda a, b: js_distance(a, b),
    cases=lambda rng: [
        (np.array([[1.0, 0.0]]), np.array([[0.75, 0.25]])),
        (np.eye(3), np.roll(np.eye(3), 1, 0) * 0.5 + np.eye(3) * 0.5),
        _maps(rng, 5, 7),
        _maps(rng, 11, 3),
    ],
    mistakes={
        "divergence": lambda a, b: _divergences(a, b).mean(),
        "nats": lambda a, b: np.sqrt(_divergences(a, b) * np.log(2)).mean(),
        "root-of-the-mean": lambda a, b: np.sqrt(_divergences(a, b).mean()),
        "summed": lambda a, b: np.sqrt(_divergences(a, b)).sum(),
        "total-variation": lambda a, b: np.abs(a - b).sum(-1).mean() / 2,
        "not-halved": lambda a, b: np.sqrt(2 * _divergences(a, b)).mean(),
        "entropies-apart": lambda a, b: np.sqrt(np.abs(_bits(a) - _bits(b))).mean(),
        "one-entropy": lambda a, b: np.sqrt(np.maximum(_bits((a + b) / 2) - _bits(a) / 2, 0.0)).mean(),
    },
    properties={"between": lambda output, a, b: 0 <= output <= 1},
)

ALIGNMENT = Exercise(
    id="redundancy-2",
    solve=linear_cka,
    cases=lambda rng: [
        (np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 5.0]]), np.array([[1.0, 0.0], [1.0, 2.0], [4.0, 1.0]])),
        (rng.standard_normal((7, 3)) + 2, rng.standard_normal((7, 5)) - 1),
        (rng.standard_normal((11, 2)) * [1, 5], rng.standard_normal((11, 2)) + np.array([0, 3])),
    ],
    mistakes={
        "not-centred": lambda x, y: np.linalg.norm(x.T @ y) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y),
        "centred-by-row": lambda x, y: _alignment(x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)),
        "not-squared": lambda x, y: np.sqrt(linear_cka(x, y)),
        "not-divided": lambda x, y: np.linalg.norm((x - x.mean(0)).T @ (y - y.mean(0))) ** 2,
        "correlation-of-numbers": lambda x, y: np.corrcoef(_gram(x).ravel(), _gram(y).ravel())[0, 1],
        "one-mean": lambda x, y: _alignment(x - x.mean(), y - y.mean()),
    },
    properties={"between": lambda output, x, y: -1e-9 <= output <= 1 + 1e-9},
)


def _gram(x):
    return x @ x.T


def _alignment(x, y):
    sizes = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return np.linalg.norm(x.T @ y) ** 2 / sizes if sizes else 0.0


def _distances(h):
    def case(rng):
        x = rng.random((h, 3))
        return (np.linalg.norm(x[:, None] - x, axis=-1),)

    return case


NEAREST = Exercise(
    id="redundancy-3",
    solve=nearest_heads,
    cases=lambda rng: [
        (np.array([[0.0, 0.3, 0.9], [0.3, 0.0, 0.4], [0.9, 0.4, 0.0]]),),
        _distances(7)(rng),
        _distances(5)(rng),
    ],
    mistakes={
        "itself": lambda distances: distances.argmin(1),
        "farthest": lambda distances: distances.argmax(1),
        "distance": lambda distances: np.sort(distances, 1)[:, 1],
        "counted-without-itself": lambda distances: (
            distances[~np.eye(len(distances), dtype=bool)].reshape(len(distances), -1).argmin(1)
        ),
        "earlier-heads-only": lambda distances: np.array(
            [0] + [int(distances[h, :h].argmin()) for h in range(1, len(distances))]
        ),
        "closest-pair": lambda distances: np.sort(
            np.unravel_index(np.where(np.eye(len(distances), dtype=bool), np.inf, distances).argmin(), distances.shape)
        ),
    },
    properties={"another": lambda output, distances: (output != np.arange(len(distances))).all()},
)

TOGETHER = Exercise(
    id="redundancy-4",
    solve=interaction,
    cases=lambda rng: [
        tuple(np.array([[2.0], [2.1], [2.2], [4.0]])),
        tuple(rng.random((4, 3)) + 2),
        tuple(rng.random((4, 7)) + 1),
    ],
    mistakes={
        "losses": lambda whole, a, b, both: both - a - b,
        "whole-twice": lambda whole, a, b, both: both - a - b - whole,
        "effect-of-both": lambda whole, a, b, both: both - whole,
        "reversed": lambda whole, a, b, both: a + b - both - whole,
        "mean-of-two": lambda whole, a, b, both: both - (a + b) / 2,
        "larger-of-two": lambda whole, a, b, both: both - np.maximum(a, b),
        "ratio": lambda whole, a, b, both: (both - whole) / (a + b - 2 * whole),
    },
)


def _layer(h, n, d, m):
    def case(rng):
        heads, w_o = rng.standard_normal((h, n, d)), rng.standard_normal((h * d, m))
        return heads, w_o, rng.standard_normal(m), np.array([h - 1, 0])

    return case


SILENCED = Exercise(
    id="redundancy-5",
    solve=output_without,
    cases=lambda rng: [
        (np.ones((3, 1, 2)), 10.0 ** np.arange(6)[:, None], np.array([7.0]), np.array([2, 0])),
        _layer(3, 5, 2, 7)(rng),
        _layer(5, 3, 7, 2)(rng),
    ],
    mistakes={
        "bias-silenced": lambda heads, w_o, bias, silent: output_without(heads, w_o, 0 * bias, silent),
        "made-up-for": lambda heads, w_o, bias, silent: (
            output_without(heads, w_o, 0 * bias, silent) * len(heads) / (len(heads) - len(silent)) + bias
        ),
        "only-these": lambda heads, w_o, bias, silent: output_without(
            heads, w_o, bias, [head for head in range(len(heads)) if head not in silent]
        ),
        "nothing-silenced": lambda heads, w_o, bias, silent: output_without(heads, w_o, bias, ()),
        "first-only": lambda heads, w_o, bias, silent: output_without(heads, w_o, bias, silent[:1]),
        "columns-dealt": lambda heads, w_o, bias, silent: output_without(
            heads, w_o.reshape(heads.shape[2], len(heads), -1).swapaxes(0, 1).reshape(w_o.shape), bias, silent
        ),
        "mean-in-its-place": lambda heads, w_o, bias, silent: (
            output_without(heads, w_o, bias, silent)
            + output_without(
                np.broadcast_to(heads.mean(1, keepdims=True), heads.shape),
                w_o,
                0 * bias,
                [head for head in range(len(heads)) if head not in silent],
            )
        ),
    },
    properties={},
)

EXERCISES = (DISTANCE, ALIGNMENT, NEAREST, TOGETHER, SILENCED)
