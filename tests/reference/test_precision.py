"""Rounding to each format against torch, NumPy, ml_dtypes and all of its numbers; loss scaling against torch."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.reference import precision
from mha.reference.precision import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FORMATS,
    LossScale,
    loss_scaling,
    round_to,
    scaled_rounding,
    spacing,
)

SMALL = [FLOAT16, BFLOAT16, FLOAT8_E5M2, FLOAT8_E4M3]
NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NUMPY |= {name: getattr(ml_dtypes, name) for name in ("float8_e5m2", "float8_e4m3fn")}

all_formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
small_formats = pytest.mark.parametrize("format", SMALL, ids=lambda format: format.name)


def numbers_of(format):
    """Return all finite numbers of a format of at most 16 bits, as the library that has the type reads its patterns."""
    patterns = np.arange(2**format.bits, dtype=f"uint{format.bits}")
    with np.errstate(invalid="ignore"):
        values = patterns.view(NUMPY[format.name]).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


@all_formats
def test_the_extremes_are_those_of_torch(format):
    found = torch.finfo(getattr(torch, format.name))
    assert format.bits == found.bits
    assert format.largest == found.max
    assert format.smallest_normal == found.tiny
    assert format.roundoff == found.eps / 2


@small_formats
def test_the_smallest_is_the_first_beside_zero(format):
    numbers = numbers_of(format)
    assert numbers[numbers > 0][0] == format.smallest
    assert numbers[-1] == format.largest


@small_formats
def test_numbers_stay_and_their_middles_go_to_the_even_one(format):
    """Every number of the format, every middle, and the float64 numbers beside each middle: exact fractions decide."""
    numbers = numbers_of(format)
    assert_equal(round_to(numbers, format), numbers, label="numbers stay")
    middles = (numbers[1:] + numbers[:-1]) / 2
    beside = zip(middles[:9], numbers[:9], numbers[1:10], strict=True)
    assert all(2 * Fraction(middle) == Fraction(low) + Fraction(high) for middle, low, high in beside)
    assert_equal(round_to(np.nextafter(middles, np.inf), format), numbers[1:], label="above the middle")
    assert_equal(round_to(np.nextafter(middles, -np.inf), format), numbers[:-1], label="below the middle")
    low_is_even = (numbers[:-1] / spacing(numbers[:-1], format)) % 2 == 0
    expected = np.where(low_is_even, numbers[:-1], numbers[1:])
    assert_equal(round_to(middles, format), expected, label="middles")


@all_formats
def test_rounds_as_torch_and_ml_dtypes_do(format):
    """Random bits of float32 of every size, NaN and ∞ too; torch reads only float32 without rounding twice.

    Beyond the largest number of a format without ∞, ml_dtypes gives NaN as we do, and some versions of torch saturate.
    """
    bits = np.random.default_rng(7).integers(0, 2**32, 100_003, dtype=np.uint32)
    limits = np.array([format.largest, format.smallest, format.smallest_normal]) * [[1], [1.03], [1.06], [0.5]]
    with np.errstate(over="ignore", invalid="ignore"):  # a NaN that signals does so once, on its way to float64
        extremes = np.array([*limits.ravel(), 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
        x = np.concatenate([bits.view(np.float32), extremes])
        by_ml_dtypes = x.astype(NUMPY[format.name]).astype(np.float64)
        by_torch = torch.from_numpy(x).to(getattr(torch, format.name)).double().numpy()
        found = round_to(x.astype(np.float64), format)
    assert_equal(found, by_ml_dtypes, label="ml_dtypes")
    told = slice(None) if format.has_infinity else np.isfinite(found)
    assert_equal(found[told], by_torch[told], label="torch")
    finite = np.isfinite(found)
    assert_equal(np.signbit(found[finite]), np.signbit(by_torch[finite]), label="signs, of zeros too")


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16], ids=lambda format: format.name)
def test_float64_is_rounded_once(format):
    """1 + half a step + a little: by way of a format between the two it would land on the wrong side."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(10_007) * 2.0 ** rng.integers(-20, 15, 10_007)
    x = np.append(x, 1 + format.roundoff * (1 + 2.0**-26))
    assert_equal(round_to(x, format), x.astype(NUMPY[format.name]).astype(np.float64))


@all_formats
def test_the_error_is_at_most_the_roundoff(format):
    """What the equation says, with equality: just above 1 the bound is reached."""
    x = np.ldexp(1 + np.random.default_rng(1).random(10_007), np.random.default_rng(2).integers(-5, 8, 10_007))
    error = np.abs(round_to(x, format) - x)
    assert (error <= format.roundoff * x / (1 + format.roundoff) + 0.0).all()
    tiny = np.random.default_rng(3).random(1009) * format.smallest_normal
    assert (np.abs(round_to(tiny, format) - tiny) <= format.smallest / 2).all()
    assert round_to(np.array([1 + format.roundoff]), format)[0] == 1.0


def test_a_planted_fault_is_seen(monkeypatch):
    """Rounding half toward zero differs at middles only."""
    monkeypatch.setattr(precision.np, "rint", lambda x: np.copysign(np.ceil(np.abs(x) - 0.5), x))
    with pytest.raises(AssertionError, match="middles"):
        test_numbers_stay_and_their_middles_go_to_the_even_one(FLOAT8_E4M3)


def test_takes_a_number_and_refuses_what_is_none():
    assert round_to(0.1, FLOAT8_E4M3) == 0.1015625
    with pytest.raises(TypeError, match="x is a torch tensor"):
        round_to(torch.ones(2), FLOAT16)
    with pytest.raises(TypeError, match="x has dtype int64"):
        round_to(np.arange(3), FLOAT16)


def test_scaled_rounding_by_hand():
    """Largest 4: times 112 it is 448. Then 0.3 · 112 = 33.6, between 32 and 36, becomes 32, and 32 / 112 = 2/7."""
    assert_equal(scaled_rounding(np.array([4.0, 0.3]), FLOAT8_E4M3), [4.0, 2 / 7], rtol=1e-15)
    rows = scaled_rounding(np.array([[4.0, 0.3], [0.0, 0.0], [-0.3, 0.0]]), FLOAT8_E4M3, axis=1)
    assert_equal(rows, [[4.0, 2 / 7], [0.0, 0.0], [-0.3, 0.0]], rtol=1e-15)


def test_a_scale_of_its_own_keeps_small_rows():
    x = np.random.default_rng(0).standard_normal((3, 101)) * np.array([[1.0], [1e-3], [1e-6]])
    error = np.abs(scaled_rounding(x, FLOAT8_E4M3, axis=1) - x).max(1) / np.abs(x).max(1)
    assert (error <= FLOAT8_E4M3.roundoff).all()
    assert (scaled_rounding(x, FLOAT8_E4M3)[2] == 0).all()


def test_loss_scaling_follows_the_scaler_of_torch():
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=3)
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    state, steps = LossScale(8.0), np.random.default_rng(5).random(60) < 0.8
    before = parameter.detach().numpy().copy()
    for is_finite in steps:
        optimiser.zero_grad()
        scaler.scale(torch.zeros(()))  # reads the initial scale
        parameter.grad = torch.tensor([1.0, 2.0]) * scaler.get_scale()
        if not is_finite:
            parameter.grad[1] = torch.inf
        scaled = [parameter.grad.numpy().copy()]
        scaler.step(optimiser)
        scaler.update()
        state, found = loss_scaling(state, scaled, growth=4.0, backoff=0.25, interval=3)
        assert state.scale == scaler.get_scale()
        assert state.clean == scaler._get_growth_tracker()
        assert (found is not None) == is_finite
        before = before if found is None else before - found[0]
        assert_equal(parameter, before)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_one_overflow_anywhere_leaves_the_step_out(bad):
    good = np.ones((2, 3))
    state, found = loss_scaling(LossScale(8.0, 5), [good, np.array([1.0, bad])])
    assert (state, found) == (LossScale(4.0, 0), None)
    state, found = loss_scaling(LossScale(8.0, 5), [good])
    assert state == LossScale(8.0, 6)
    assert_equal(found[0], good / 8)


def test_a_name_is_no_format():
    with pytest.raises(TypeError, match=r"format is 'float16': expected a Format"):
        round_to(1.0, "float16")
