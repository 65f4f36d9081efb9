"""Rotary positions: a vector turned, rows of weights moved, another base, pairs that never come round, a ramp."""

import math

import numpy as np

from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree
from mha.reference import interleaved_order, llama3_frequencies, rotary_frequencies, rotate


def turn(x, position):
    return rotate(x[None, None], np.array([position]))[0, 0]


def to_interleaved(w, num_heads):
    return w[:, interleaved_order(num_heads, w.shape[1] // num_heads)]


def longer_base(base, width, factor):
    return base * factor ** (width / (width - 2))


def never_round(width, base, length):
    return int((length * rotary_frequencies(width, base) < 2 * math.pi).sum())


def slowed(frequencies, factor, length):
    return llama3_frequencies(frequencies, factor, length)


def _turned(exponent=lambda c, d: -2 * c / d, sign=1.0, layout="half", swapped=False):
    """Build a wrong turn from the exponent of the base, the direction and where a pair lies."""

    def turn(x, position):
        d = len(x)
        c = np.arange(d // 2)
        a, b = (x[: d // 2], x[d // 2 :]) if layout == "half" else (x[0::2], x[1::2])
        angles = sign * position * 10000.0 ** exponent(c, d)
        cos, sin = (np.sin(angles), np.cos(angles)) if swapped else (np.cos(angles), np.sin(angles))
        return np.concatenate((a * cos - b * sin, a * sin + b * cos))

    return turn


TURN = Exercise(
    id="rotary-1",
    solve=turn,
    cases=lambda rng: [
        (np.array([1.0, 0.0, 0.0, 0.0]), 1),
        (rng.standard_normal(6), 7),
        (rng.standard_normal(10), 101),
        (rng.standard_normal(4), 0),
    ],
    mistakes={
        "other-layout": lambda x, position: rotate(x[None, None], np.array([position]), layout="interleaved")[0, 0],
        "neighbours-side-by-side": _turned(layout="interleaved"),
        "backwards": _turned(sign=-1.0),
        "half-the-exponent": _turned(lambda c, d: -c / d),
        "upside-down": _turned(lambda c, d: 2 * c / d),
        "whole-base-at-the-end": _turned(lambda c, d: -2 * c / max(d - 2, 1)),
        "one-speed": _turned(lambda c, d: 0.0 * c),
        "sine-for-cosine": _turned(swapped=True),
        "counted-from-one": lambda x, position: turn(x, position + 1),
    },
    properties={"same-length": lambda output, x, position: agree((output**2).sum(), (x**2).sum(), 1e-9)},
)

LAYOUT = Exercise(
    id="rotary-2",
    solve=to_interleaved,
    cases=lambda rng: [
        (np.arange(8.0)[None], 2),
        (rng.standard_normal((5, 18)), 3),
        (rng.standard_normal((3, 10)), 1),
    ],
    mistakes={
        "the-way-back": lambda w, num_heads: w[:, np.argsort(interleaved_order(num_heads, w.shape[1] // num_heads))],
        "across-heads": lambda w, num_heads: w[:, interleaved_order(1, w.shape[1])],
        "unchanged": lambda w, num_heads: w.copy(),
        "heads-interleaved": lambda w, num_heads: w.reshape(len(w), num_heads, -1).swapaxes(1, 2).reshape(len(w), -1),
        "first-head-alone": lambda w, num_heads: np.concatenate(
            (to_interleaved(w[:, : w.shape[1] // num_heads], 1), w[:, w.shape[1] // num_heads :]), axis=1
        ),
    },
    properties={
        "same-columns": lambda output, w, num_heads: agree(np.sort(output, axis=1), np.sort(w, axis=1), 1e-12),
    },
)

BASE = Exercise(
    id="rotary-3",
    solve=longer_base,
    cases=lambda rng: [(np.array([10000.0]), 64, 2.0), (np.array([500.0, 1e5]), 6, 4.0), (np.array([1e5]), 128, 8.0)],
    mistakes={
        "times-factor": lambda base, width, factor: base * factor,
        "exponent-upside-down": lambda base, width, factor: base * factor ** ((width - 2) / width),
        "pairs-for-columns": lambda base, width, factor: base * factor ** (width / 2 / (width / 2 - 2)),
        "divided": lambda base, width, factor: base / factor ** (width / (width - 2)),
        "power-of-the-base": lambda base, width, factor: base**factor,
        "width-as-exponent": lambda base, width, factor: base * factor ** (width / 2.0),
    },
)

ROUND = Exercise(
    id="rotary-4",
    solve=never_round,
    cases=lambda rng: [(4, 100.0, 7), (64, 1e5, 8192), (128, 5e5, 8192), (26, 10000.0, 100), (8, 10.0, 10**6)],
    mistakes={
        "radians-for-turns": lambda width, base, length: int((length * rotary_frequencies(width, base) < 1).sum()),
        "those-that-do": lambda width, base, length: width // 2 - never_round(width, base, length),
        "columns": lambda width, base, length: 2 * never_round(width, base, length),
        "half-a-turn": lambda width, base, length: int((length * rotary_frequencies(width, base) < math.pi).sum()),
        "half-the-exponent": lambda width, base, length: int(
            (length * base ** -(np.arange(width // 2) / width) < 2 * math.pi).sum()
        ),
        "degrees": lambda width, base, length: int((length * rotary_frequencies(width, base) < 360).sum()),
    },
)


def _ramp(left):
    """Build a wrong slowing from the share that is left, given the turns in training."""

    def slowed(frequencies, factor, length):
        share = left(length * frequencies / (2 * math.pi))
        return share * frequencies + (1 - share) * frequencies / factor

    return slowed


RAMP = Exercise(
    id="rotary-5",
    solve=slowed,
    cases=lambda rng: [
        (np.array([1.0, 0.1, 0.01]), 4.0, 100),
        (rotary_frequencies(64, 500.0), 8.0, 997),
        (rotary_frequencies(128, 5e5), 8.0, 8192),
    ],
    mistakes={
        "all-alike": lambda frequencies, factor, length: frequencies / factor,
        "not-clipped": _ramp(lambda turns: (turns - 1) / 3),
        "ends-swapped": _ramp(lambda turns: 1 - np.clip((turns - 1) / 3, 0, 1)),
        "radians-for-turns": _ramp(lambda turns: np.clip((2 * math.pi * turns - 1) / 3, 0, 1)),
        "a-step": _ramp(lambda turns: (turns >= 1).astype(float)),
        "ramp-from-zero": _ramp(lambda turns: np.clip(turns / 4, 0, 1)),
        "wavelengths-averaged": lambda frequencies, factor, length: (
            frequencies
            / (
                np.clip((length * frequencies / (2 * math.pi) - 1) / 3, 0, 1)
                + factor * (1 - np.clip((length * frequencies / (2 * math.pi) - 1) / 3, 0, 1))
            )
        ),
    },
    properties={
        "between": lambda output, frequencies, factor, length: bool(
            ((output <= frequencies * (1 + 1e-9)) & (output >= frequencies / factor * (1 - 1e-9))).all()
        ),
    },
)

EXERCISES = (TURN, LAYOUT, BASE, ROUND, RAMP)
