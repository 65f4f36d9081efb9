"""Sparse attention: who sees whom, how many pairs that makes, the best stride, and reach over layers."""

import math

import numpy as np

from mha.exercises.exercise import Exercise
from mha.masks import causal, strided, window


def strided_keys(i, step):
    row = (causal & (window(step, 0) | strided(step))).dense(1, i + 1)[0]
    return np.flatnonzero(row)


def window_pairs(n, left):
    left = min(left, max(n - 1, 0))
    return n * (left + 1) - left * (left + 1) // 2


def layers_to_all(see):
    reached, layers = see, 1
    while not reached.all():
        reached, layers = reached @ see, layers + 1
    return layers


def by_remainder(n, step):
    return np.argsort(np.arange(n) % step, kind="stable")


def _keys(rule):
    """Build a wrong answer from the rule that it follows."""
    return lambda i, step: np.array([j for j in range(i + 1) if rule(i, j, step)], dtype=int)


KEYS = Exercise(
    id="sparse-1",
    solve=strided_keys,
    cases=lambda rng: [(7, 3), (0, 2), (20, 5), (11, 4), (6, 7)],
    mistakes={
        "window-alone": _keys(lambda i, j, step: i - j <= step),
        "strides-alone": _keys(lambda i, j, step: (i - j) % step == 0),
        "one-too-few": _keys(lambda i, j, step: i - j < step - 1 or (i - j) % step == 0),
        "counted-from-the-start": _keys(lambda i, j, step: i - j <= step or j % step == 0),
        "not-itself": _keys(lambda i, j, step: i != j and (i - j <= step or (i - j) % step == 0)),
        "both-needed": _keys(lambda i, j, step: i - j <= step and (i - j) % step == 0),
        "booleans": lambda i, step: (causal & (window(step, 0) | strided(step))).dense(1, i + 1)[0],
    },
)

PAIRS = Exercise(
    id="sparse-2",
    solve=window_pairs,
    cases=lambda rng: [(5, 1), (4, 0), (7, 3), (3, 5), (1, 2), (4096, 255)],
    mistakes={
        "no-corner": lambda n, left: n * (left + 1),
        "itself-forgotten": lambda n, left: n * min(left, n - 1) - min(left, n - 1) * (min(left, n - 1) + 1) // 2,
        "both-sides": lambda n, left: n * (2 * min(left, n - 1) + 1) - min(left, n - 1) * (min(left, n - 1) + 1),
        "corner-cut-short": lambda n, left: n * (min(left, n - 1) + 1) - min(left, n - 1) * (min(left, n - 1) - 1) // 2,
        "longer-than-the-text": lambda n, left: n * (left + 1) - left * (left + 1) // 2,
        "triangle": lambda n, left: n * (n + 1) // 2,
        "square": lambda n, left: n * n,
    },
)

LENGTH = 8192

STRIDE = Exercise(
    id="sparse-3",
    solve=lambda: math.sqrt(LENGTH / 2),
    mistakes={
        "whole-square": lambda: math.sqrt(LENGTH),
        "twice": lambda: math.sqrt(2 * LENGTH),
        "pairs": lambda: LENGTH * math.sqrt(2 * LENGTH),
        "no-root": lambda: LENGTH / 2,
        "logarithm": lambda: math.log2(LENGTH),
        "one": lambda: 1.0,
    },
    tolerance=1e-3,
)


def _chain(n, left, right=0):
    return window(left, right).dense(n, n)


LAYERS = Exercise(
    id="sparse-4",
    solve=layers_to_all,
    cases=lambda rng: [
        (_chain(4, 1, 1),),
        (np.ones((3, 3), bool),),
        (_chain(11, 2, 2),),
        (_chain(9, 1, 1) | (np.arange(9) == 0)[:, None] | (np.arange(9) == 0),),
        (_chain(17, 3, 1),),
    ],
    mistakes={
        "one-too-few": lambda see: layers_to_all(see) - 1,
        "one-too-many": lambda see: layers_to_all(see) + 1,
        "doubled-each-time": lambda see: 1 + math.ceil(math.log2(layers_to_all(see))),
        "one-row": lambda see: int(
            next(t for t in range(1, 100) if np.linalg.matrix_power(see.astype(float), t)[0].all())
        ),
        "positions-minus-one": lambda see: len(see) - 1,
        "widest-row": lambda see: math.ceil((len(see) - 1) / (see.sum(1).max() - 1)),
    },
)

ORDER = Exercise(
    id="sparse-5",
    solve=by_remainder,
    cases=lambda rng: [(6, 3), (7, 3), (10, 4), (5, 1), (3, 5)],
    mistakes={
        "not-moved": lambda n, step: np.arange(n),
        "remainders": lambda n, step: np.arange(n) % step,
        "backwards": lambda n, step: by_remainder(n, step)[::-1],
        "the-way-back": lambda n, step: np.argsort(by_remainder(n, step)),
        "rows-of-step": lambda n, step: np.argsort(np.arange(n) % -(-n // step), kind="stable"),
    },
    properties={
        "each-once": lambda output, n, step: bool((np.sort(output) == np.arange(n)).all()),
    },
)

EXERCISES = (KEYS, PAIRS, STRIDE, LAYERS, ORDER)
