"""Pruning: what a removed head takes along, what stays where, scores of heads, and what it is worth."""

import math

import numpy as np

from mha.exercises.exercise import Exercise


def parameters(d_model, d_head, reads):
    return 2 * d_model * d_head * (len(reads) + len(set(reads.tolist())))


def place(head, gone):
    return head - sum(other < head for other in gone)


def entropies(weights):
    return -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)


def focus(weights):
    visible = np.arange(2, len(weights) + 1)
    return (np.log(visible) - entropies(weights)[1:]).mean()


def mask_gradient(found, slopes):
    return np.abs((found * slopes).sum((-1, -2))).mean(0)


def _products(w_v, w_o, num_heads):
    w_v, w_o = np.split(w_v, num_heads, axis=1), np.split(w_o, num_heads, axis=0)
    return zip(w_v, w_o, strict=True)


def weight_norms(w_v, w_o, num_heads):
    return np.array([np.linalg.norm(v @ o) for v, o in _products(w_v, w_o, num_heads)])


PARAMETERS = Exercise(
    id="pruning-1",
    solve=parameters,
    cases=lambda rng: [
        (10, 3, np.array([0, 1, 2])),
        (576, 64, np.array([0, 0, 1, 2, 2])),
        (7, 5, np.array([2, 2, 2, 2])),
        (11, 2, np.array([1])),
    ],
    mistakes={
        "own-keys": lambda d_model, d_head, reads: 4 * d_model * d_head * len(reads),
        "all-keys": lambda d_model, d_head, reads: 2 * d_model * d_head * (len(reads) + int(reads.max()) + 1),
        "no-output": lambda d_model, d_head, reads: d_model * d_head * (len(reads) + 2 * len(set(reads.tolist()))),
        "keys-without-values": lambda d_model, d_head, reads: (
            d_model * d_head * (2 * len(reads) + len(set(reads.tolist())))
        ),
        "queries-only": lambda d_model, d_head, reads: 2 * d_model * d_head * len(reads),
        "square": lambda d_model, d_head, reads: 4 * d_model**2,
    },
)

PLACE = Exercise(
    id="pruning-2",
    solve=place,
    cases=lambda rng: [
        (2, np.array([1])),
        (0, np.array([3, 1])),
        (7, np.array([], dtype=int)),
        (6, np.array([1, 8, 5, 2])),
        (5, np.array([6, 7])),
    ],
    mistakes={
        "not-moved": lambda head, gone: head,
        "all-gone": lambda head, gone: head - len(gone),
        "once": lambda head, gone: head - int(any(other < head for other in gone)),
        "upwards": lambda head, gone: head + sum(other < head for other in gone),
        "one-by-one": lambda head, gone: _renumbered(head, gone),
    },
)


def _renumbered(head, gone):
    """Take each number for a place among the heads that are left by then."""
    for other in gone:
        head -= other < head
    return head


FOCUS = Exercise(
    id="pruning-3",
    solve=focus,
    cases=lambda rng: [(np.array([[1.0, 0.0], [0.25, 0.75]]),), (_causal(rng, 7),), (np.eye(5),)],
    mistakes={
        "entropy": lambda weights: entropies(weights)[1:].mean(),
        "all-keys": lambda weights: (math.log(len(weights)) - entropies(weights))[1:].mean(),
        "first-row": lambda weights: (np.log(np.arange(1, len(weights) + 1)) - entropies(weights)).mean(),
        "negative": lambda weights: -focus(weights),
        "bits": lambda weights: focus(weights) / math.log(2),
        "share": lambda weights: (1 - entropies(weights)[1:] / np.log(np.arange(2, len(weights) + 1))).mean(),
        "columns": lambda weights: focus(weights.T),
    },
)


def _causal(rng, n):
    weights = np.tril(np.exp(rng.standard_normal((n, n))))
    return weights / weights.sum(-1, keepdims=True)


GRADIENT = Exercise(
    id="pruning-4",
    solve=mask_gradient,
    cases=lambda rng: [
        (np.array([[[[1.0, 2.0]]], [[[3.0, 4.0]]]]), np.array([[[[1.0, 1.0]]], [[[-2.0, 0.5]]]])),
        tuple(rng.standard_normal((2, 5, 3, 7, 2))),
        tuple(rng.standard_normal((2, 4, 2, 1, 3))),
    ],
    mistakes={
        "examples-cancel": lambda found, slopes: np.abs((found * slopes).sum((-1, -2)).mean(0)),
        "signed": lambda found, slopes: (found * slopes).sum((-1, -2)).mean(0),
        "by-token": lambda found, slopes: np.abs((found * slopes).sum(-1)).sum(-1).mean(0),
        "by-number": lambda found, slopes: np.abs(found * slopes).sum((-1, -2)).mean(0),
        "summed": lambda found, slopes: np.abs((found * slopes).sum((-1, -2))).sum(0),
        "slopes-alone": lambda found, slopes: np.abs(slopes.sum((-1, -2))).mean(0),
        "mean-of-numbers": lambda found, slopes: np.abs((found * slopes).mean((-1, -2))).mean(0),
    },
)

NORMS = Exercise(
    id="pruning-5",
    solve=weight_norms,
    cases=lambda rng: [
        (np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([[2.0, 0.0], [0.0, 1.0]]), 2),
        (rng.standard_normal((7, 6)), rng.standard_normal((6, 7)), 3),
        (rng.standard_normal((5, 4)), rng.standard_normal((4, 5)), 2),
    ],
    mistakes={
        "factors": lambda w_v, w_o, num_heads: np.array(
            [np.linalg.norm(v) * np.linalg.norm(o) for v, o in _products(w_v, w_o, num_heads)]
        ),
        "values-only": lambda w_v, w_o, num_heads: np.array(
            [np.linalg.norm(v) for v, _ in _products(w_v, w_o, num_heads)]
        ),
        "output-only": lambda w_v, w_o, num_heads: np.array(
            [np.linalg.norm(o) for _, o in _products(w_v, w_o, num_heads)]
        ),
        "wrong-order": lambda w_v, w_o, num_heads: np.array(
            [np.linalg.norm(o @ v) for v, o in _products(w_v, w_o, num_heads)]
        ),
        "squared": lambda w_v, w_o, num_heads: weight_norms(w_v, w_o, num_heads) ** 2,
        "largest": lambda w_v, w_o, num_heads: np.array(
            [np.linalg.norm(v @ o, 2) for v, o in _products(w_v, w_o, num_heads)]
        ),
        "whole": lambda w_v, w_o, num_heads: np.full(num_heads, np.linalg.norm(w_v @ w_o)),
    },
)

SPEED = Exercise(
    id="pruning-6",
    solve=lambda: 1 / (1 - 0.25 * 0.4),
    mistakes={
        "attention-alone": lambda: 1 / (1 - 0.4),
        "time-left": lambda: 1 - 0.25 * 0.4,
        "attention-gone": lambda: 1 / (1 - 0.25),
        "rest-pruned": lambda: 1 / (1 - 0.75 * 0.4),
        "added": lambda: 1 + 0.25 * 0.4,
    },
    tolerance=5e-3,
)

EXERCISES = (PARAMETERS, PLACE, FOCUS, GRADIENT, NORMS, SPEED)
