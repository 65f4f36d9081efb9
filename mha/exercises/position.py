"""Absolute positions: sinusoids, the turn that a shift is, positions of padded samples, two axes."""

import math

import numpy as np

from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree
from mha.reference import shift_matrix as shifting
from mha.reference import sinusoidal as waves
from mha.reference import sinusoidal_2d as waves_2d


def sinusoidal(positions, d_model):
    return waves(positions, d_model)


def shift_matrix(distance, d_model):
    return shifting(distance, d_model)


def positions_of(keep):
    return np.maximum(np.cumsum(keep, axis=-1) - 1, 0)


def sinusoidal_2d(rows, columns, d_model):
    return waves_2d(np.stack([rows, columns], axis=-1), d_model)


def _waves(exponents, first=np.sin, second=np.cos):
    """Build wrong sinusoids from the exponent of the base in each column and what even and odd columns hold."""

    def encode(positions, d_model):
        columns = np.arange(d_model)
        angles = positions[..., None] * 10000.0 ** -exponents(columns, d_model)
        return np.where(columns % 2 == 0, first(angles), second(angles))

    return encode


def _right(columns, d_model):
    return columns // 2 * 2 / d_model


SINUSOIDAL = Exercise(
    id="position-1",
    solve=sinusoidal,
    cases=lambda rng: [
        (np.arange(3), 4),
        (np.array([0, 7, 100, 5]), 6),
        (rng.integers(0, 500, (2, 5)), 10),
    ],
    mistakes={
        "half-layout": lambda positions, d_model: waves(positions, d_model, layout="half"),
        "cosine-first": _waves(_right, np.cos, np.sin),
        "own-frequency": _waves(lambda columns, d_model: columns / d_model),
        "half-the-exponent": _waves(lambda columns, d_model: columns // 2 / d_model),
        "whole-base-at-the-end": _waves(lambda columns, d_model: columns // 2 * 2 / (d_model - 2)),
        "upside-down": _waves(lambda columns, d_model: -_right(columns, d_model)),
        "only-sines": _waves(_right, np.sin, np.sin),
        "no-base": _waves(lambda columns, d_model: 0.0 * columns),
        "from-one": lambda positions, d_model: waves(positions + 1, d_model),
    },
    properties={
        "on-circles": lambda output, positions, d_model: agree(
            (output**2).sum(-1), np.full(np.shape(positions), d_model / 2), 1e-9
        ),
    },
)


def _mirrored(matrix):
    return np.where(np.tri(len(matrix), dtype=bool), matrix, matrix.T)


SHIFT = Exercise(
    id="position-2",
    solve=shift_matrix,
    cases=lambda rng: [(1, 2), (3, 4), (-7, 6), (100, 10)],
    mistakes={
        "backwards": lambda distance, d_model: shifting(-distance, d_model),
        "half-layout": lambda distance, d_model: shifting(distance, d_model, layout="half"),
        "one-frequency": lambda distance, d_model: np.kron(np.eye(d_model // 2), shifting(distance, 2)),
        "signs-alike": lambda distance, d_model: _mirrored(shifting(distance, d_model)),
        "one-step": lambda distance, d_model: shifting(1, d_model),
        "cosines-only": lambda distance, d_model: np.diag(np.diag(shifting(distance, d_model))),
    },
    properties={
        "keeps-lengths": lambda output, distance, d_model: agree(output @ output.T, np.eye(d_model), 1e-9),
        "moves-position-zero": lambda output, distance, d_model: agree(
            waves(np.array(0), d_model) @ output, waves(np.array(distance), d_model), 1e-9
        ),
    },
)


def _kept(*lengths):
    n = max(lengths) + 2
    return np.arange(n) >= n - np.array(lengths)[:, None]


POSITIONS = Exercise(
    id="position-3",
    solve=positions_of,
    cases=lambda rng: [
        (np.array([[False, True, True], [True, True, True]]),),
        (_kept(3, 1, 5),),
        (_kept(1),),
        (_kept(2, 7, 4, 1),),
    ],
    mistakes={
        "slots": lambda keep: np.broadcast_to(np.arange(keep.shape[-1]), keep.shape),
        "from-one": lambda keep: np.cumsum(keep, axis=-1),
        "negative": lambda keep: np.cumsum(keep, axis=-1) - 1,
        "over-the-batch": lambda keep: np.maximum(np.cumsum(keep, axis=0) - 1, 0),
        "from-the-end": lambda keep: np.maximum(np.cumsum(keep[:, ::-1], axis=-1)[:, ::-1] - 1, 0),
        "times-keep": lambda keep: np.arange(keep.shape[-1]) * keep,
        "lengths": lambda keep: keep.sum(-1) - 1,
    },
    properties={
        "first-is-zero": lambda output, keep: (output[np.arange(len(keep)), keep.argmax(-1)] == 0).all(),
        "a-row-exists": lambda output, keep: (output >= 0).all(),
    },
)

TWO_AXES = Exercise(
    id="position-4",
    solve=sinusoidal_2d,
    cases=lambda rng: [
        (np.array([1]), np.array([2]), 4),
        (*np.indices((2, 3)).reshape(2, -1), 8),
        (*rng.integers(0, 99, (2, 5)), 12),
    ],
    mistakes={
        "columns-first": lambda rows, columns, d_model: sinusoidal_2d(columns, rows, d_model),
        "sum": lambda rows, columns, d_model: waves(rows, d_model) + waves(columns, d_model),
        "full-width": lambda rows, columns, d_model: np.concatenate(
            [waves(rows, d_model), waves(columns, d_model)], -1
        ),
        "frequencies-shared-out": lambda rows, columns, d_model: np.concatenate(
            [waves(rows, d_model)[..., : d_model // 2], waves(columns, d_model)[..., d_model // 2 :]], -1
        ),
        "dealt": lambda rows, columns, d_model: np.stack(
            [waves(rows, d_model // 2), waves(columns, d_model // 2)], -1
        ).reshape(*np.shape(rows), d_model),
        "one-number": lambda rows, columns, d_model: waves(rows * (columns.max() + 1) + columns, d_model),
    },
    properties={
        "columns-leave-the-first-half": lambda output, rows, columns, d_model: agree(
            output[..., : d_model // 2], waves(rows, d_model // 2), 1e-9
        ),
    },
)

LONGEST = Exercise(
    id="position-5",
    solve=lambda: 2 * math.pi * 10000 ** (510 / 512),
    mistakes={
        "whole-base": lambda: 2 * math.pi * 10000,
        "no-turn": lambda: 10000 ** (510 / 512),
        "half-turn": lambda: math.pi * 10000 ** (510 / 512),
        "every-column": lambda: 2 * math.pi * 10000 ** (511 / 512),
        "half-the-exponent": lambda: 2 * math.pi * 10000 ** (255 / 512),
        "shortest": lambda: 2 * math.pi,
        "angle": lambda: 10000 ** (-510 / 512),
    },
    tolerance=1e-3,
)

EXERCISES = (SINUSOIDAL, SHIFT, POSITIONS, TWO_AXES, LONGEST)
