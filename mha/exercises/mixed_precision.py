"""Mixed precision: rounding a fraction, a score in 16 bits, a scale for each head, loss scaling, sums in pairs."""

import math

import numpy as np

from mha.exercises.exercise import Exercise
from mha.reference import BFLOAT16, FLOAT16, Format, LossScale, loss_scaling, round_to, spacing

EXACT = 1e-12


def round_fraction(x, bits):
    return round_to(x, Format("unbounded", 11, bits))


def score_percent():
    """Return how far half a step of bfloat16 at 64 moves an exponential."""
    return 100 * math.expm1(spacing(np.array(64.0), BFLOAT16) / 2)


def head_scales(x, largest):
    top = np.abs(x).max((-1, -2), keepdims=True)
    return np.where(top > 0, largest / np.where(top > 0, top, 1.0), 1.0)


def scales(gradients, scale, interval):
    state, used = LossScale(scale), []
    for row in gradients:
        used.append(state.scale)
        state, _ = loss_scaling(state, [round_to(state.scale * row, FLOAT16)], interval=interval)
    return np.array(used)


def sum_in_pairs(x, bits):
    while len(x) > 1:
        x = round_fraction(x[::2] + x[1::2], bits)
    return x[0]


def _stepped(exponent, step_of, rounding=np.rint):
    """Build a wrong rounding from how it finds the exponent, the step, and the whole number."""

    def round_fraction(x, bits):
        step = step_of(exponent(x), bits)
        return rounding(x / step) * step

    return round_fraction


def _below(x):
    return np.floor(np.log2(np.abs(x)))


FRACTION = Exercise(
    id="mixed-precision-1",
    solve=round_fraction,
    cases=lambda rng: [
        (np.array([0.1, 1.0, 3.3, -5.7]), 3),
        (np.array([1.0625, 1.1875, -2.125, 2.375, 1.99, -1.97]), 3),
        (rng.standard_normal(31) * 2.0 ** rng.integers(-20, 20, 31), 7),
        (rng.standard_normal((3, 5)), 10),
    ],
    mistakes={
        "cut-off": _stepped(_below, lambda e, f: 2.0 ** (e - f), np.trunc),
        "rounded-down": _stepped(_below, lambda e, f: 2.0 ** (e - f), np.floor),
        "rounded-up": _stepped(_below, lambda e, f: 2.0 ** (e - f), np.ceil),
        "fixed-point": _stepped(_below, lambda e, f: 2.0**-f),
        "one-bit-more": _stepped(_below, lambda e, f: 2.0 ** (e - f - 1)),
        "one-bit-less": _stepped(_below, lambda e, f: 2.0 ** (e - f + 1)),
        "nearest-exponent": _stepped(lambda x: np.rint(np.log2(np.abs(x))), lambda e, f: 2.0 ** (e - f)),
        "one-exponent-for-all": _stepped(lambda x: _below(x).max(), lambda e, f: 2.0 ** (e - f)),
        "decimals": lambda x, bits: np.round(x, bits),
        "middles-away-from-zero": _stepped(
            _below, lambda e, f: 2.0 ** (e - f), lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)
        ),
    },
    properties={
        "within-the-roundoff": lambda found, x, bits: (np.abs(found - x) <= 2.0 ** -(bits + 1) * np.abs(x)).all(),
    },
    tolerance=EXACT,
)

SCORE = Exercise(
    id="mixed-precision-2",
    solve=score_percent,
    mistakes={
        "whole-step": lambda: 100 * math.expm1(1 / 2),
        "eight-fraction-bits": lambda: 100 * math.expm1(1 / 8),
        "float16": lambda: 100 * math.expm1(2.0**-5),
        "error-of-the-score": lambda: 100 * 2.0**-8,
        "not-the-exponential": lambda: 25.0,
        "share": lambda: math.expm1(1 / 4),
        "factor": lambda: 100 * math.exp(1 / 4),
        "too-small": lambda: 100 * (1 - math.exp(-1 / 4)),
    },
    tolerance=5e-3,
)

HEADS = Exercise(
    id="mixed-precision-3",
    solve=head_scales,
    cases=lambda rng: [
        (np.array([[[1.0, -4.0]], [[0.5, 0.25]]]), 448.0),
        (rng.standard_normal((3, 5, 7)) * np.array([1.0, 1e-3, 1e3])[:, None, None], 448.0),
        (np.concatenate([np.zeros((1, 3, 2)), -np.ones((1, 3, 2))]), 57344.0),
    ],
    mistakes={
        "one-for-all": lambda x, largest: np.full((len(x), 1, 1), largest / np.abs(x).max()),
        "signed": lambda x, largest: largest / x.max((1, 2), keepdims=True),
        "upside-down": lambda x, largest: np.abs(x).max((1, 2), keepdims=True) / largest,
        "each-token": lambda x, largest: largest / np.abs(x).max(2, keepdims=True),
        "each-column": lambda x, largest: largest / np.abs(x).max(1, keepdims=True),
        "to-one": lambda x, largest: 1 / np.abs(x).max((1, 2), keepdims=True),
        "axes-dropped": lambda x, largest: largest / np.abs(x).max((1, 2)),
        "spread": lambda x, largest: largest / x.std((1, 2), keepdims=True),
        "zero-head": lambda x, largest: largest / np.abs(x).max((1, 2), keepdims=True),
        "zero-head-zero": lambda x, largest: np.nan_to_num(largest / np.abs(x).max((1, 2), keepdims=True), posinf=0.0),
    },
    properties={
        "fits": lambda found, x, largest: (np.abs(x * found) <= largest * (1 + 1e-9)).all(),
    },
    tolerance=EXACT,
)


def _scales(after_overflow=lambda scale: scale / 2, reset=0, record_first=True, overflows=None, restart=0):
    """Build a wrong scaler from what it does after an overflow, after a growth, and when it writes down the scale."""
    overflows = overflows or (lambda scale, row: scale * np.abs(row).max() > 65504)

    def scales(gradients, scale, interval):
        used, clean = [], 0
        for row in gradients:
            before, clean = scale, clean + 1
            if overflows(scale, row):
                scale, clean = after_overflow(scale), (clean if reset is None else reset)
            elif clean == interval:
                scale, clean = 2 * scale, (clean if restart is None else restart)
            used.append(before if record_first else scale)
        return np.array(used, dtype=float)

    return scales


LOSS = Exercise(
    id="mixed-precision-4",
    solve=scales,
    cases=lambda rng: [
        (np.array([[1.0], [1.0], [1.0], [1.0], [1.0]]), 32768.0, 2),
        (np.array([[1.0, -3.0]] * 9), 65536.0, 3),
        (rng.choice([0.5, 2.0, 64.0], (40, 3), p=[0.9, 0.08, 0.02]) * rng.choice([-1, 1], (40, 3)), 4096.0, 4),
    ],
    mistakes={
        "never-grows": lambda gradients, scale, interval: _scales()(gradients, scale, math.inf),
        "never-falls": _scales(after_overflow=lambda scale: scale),
        "signs-forgotten": _scales(overflows=lambda scale, row: scale * row.max() > 65504),
        "count-not-reset": _scales(reset=None),
        "grows-once": _scales(restart=None),
        "scale-of-the-next": _scales(record_first=False),
        "one-too-many": lambda gradients, scale, interval: _scales()(gradients, scale, interval + 1),
        "one-too-few": lambda gradients, scale, interval: _scales()(gradients, scale, interval - 1),
        "overflow-counts-as-one": _scales(reset=1),
        "quartered": _scales(after_overflow=lambda scale: scale / 4),
        "back-to-one": _scales(after_overflow=lambda scale: 1.0),
    },
    properties={
        "starts-as-given": lambda found, gradients, scale, interval: found[0] == scale,
        "powers-of-two": lambda found, gradients, scale, interval: (np.log2(found / scale) % 1 == 0).all(),
    },
    tolerance=EXACT,
)


def _left_to_right(x, bits):
    total = x[0]
    for term in x[1:]:
        total = round_fraction(np.array(total + term), bits)
    return total


PAIRS = Exercise(
    id="mixed-precision-5",
    solve=sum_in_pairs,
    cases=lambda rng: [
        (np.array([1.0, 2.0, 4.0, 8.0]) / 3, 2),
        (np.ones(1024), 7),
        *[(rng.random(64) + 0.1, bits) for bits in (4, 7, 9)],
        (rng.random(2) + 0.1, 3),
        (np.array([1.3]), 3),
    ],
    mistakes={
        "left-to-right": _left_to_right,
        "not-rounded": lambda x, bits: x.sum(),
        "rounded-at-the-end": lambda x, bits: round_fraction(x.sum(keepdims=True), bits)[0],
        "terms-rounded-only": lambda x, bits: round_fraction(x, bits).sum(),
        "mean": lambda x, bits: sum_in_pairs(x, bits) / len(x),
        "halves": lambda x, bits: (
            sum_in_pairs(x.reshape(2, -1).T.ravel(), bits) if len(x) > 1 else x[0]  # first with middle: not neighbours
        ),
        "one-round": lambda x, bits: round_fraction(x[::2] + x[1::2], bits).sum() if len(x) > 1 else x[0],
    },
    properties={
        "near-the-sum": lambda found, x, bits: abs(found - x.sum()) <= len(x) * 2.0**-bits * x.sum(),
    },
    tolerance=EXACT,
)

EXERCISES = (FRACTION, SCORE, HEADS, LOSS, PAIRS)
