"""Numbers of fewer bits, emulated: the formats as values, exact rounding to each of them, and loss scaling.

float64 stands for the real numbers. What is beyond the largest number of a format becomes ∞, or NaN where there is no
∞; hardware may also be told to saturate.
"""

from typing import NamedTuple

import numpy as np

from mha import shapes


class Format(NamedTuple):
    """A binary floating-point format: a sign, `exponent_bits` and `fraction_bits`."""

    name: str
    exponent_bits: int
    fraction_bits: int
    has_infinity: bool = True  # without one, its exponent serves for numbers, and a single pattern is NaN

    @property
    def bits(self):
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self):
        """What is subtracted from the stored exponent."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def roundoff(self):
        """The largest relative error of rounding a normal number."""
        return 2.0 ** -(self.fraction_bits + 1)

    @property
    def largest(self):
        if self.has_infinity:
            return (2 - 2.0**-self.fraction_bits) * 2.0**self.bias
        return (2 - 2 * 2.0**-self.fraction_bits) * 2.0 ** (self.bias + 1)

    @property
    def smallest_normal(self):
        """The smallest positive number with full precision."""
        return 2.0 ** (1 - self.bias)

    @property
    def smallest(self):
        """The smallest positive number: also the distance of all numbers below `smallest_normal`."""
        return self.smallest_normal * 2.0**-self.fraction_bits


FLOAT32 = Format("float32", 8, 23)
FLOAT16 = Format("float16", 5, 10)
BFLOAT16 = Format("bfloat16", 8, 7)
FLOAT8_E5M2 = Format("float8_e5m2", 5, 2)
FLOAT8_E4M3 = Format("float8_e4m3fn", 4, 3, has_infinity=False)
FORMATS = (FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E5M2, FLOAT8_E4M3)


def spacing(x, format: Format) -> "Float[Array, '*b']":
    """Return the distance between neighbours of `format` at x, a number or an array."""
    if not isinstance(format, Format):
        raise TypeError(f"format is {format!r}: expected a Format, such as mha.reference.FLOAT16")
    _, exponent = np.frexp(np.maximum(np.abs(_float64(x)), format.smallest_normal))
    return np.ldexp(1.0, exponent - 1 - format.fraction_bits)


def round_to(x, format: Format) -> "Float[Array, '*b']":
    """Return the number of `format` nearest to x.   Book: {eq}`rounding-unit`.

    Of two equally near ones it is the even one.
    """
    x = _float64(x)
    step = spacing(np.where(np.isfinite(x), x, 0.0), format)
    rounded = np.rint(x / step) * step
    beyond = np.copysign(np.inf if format.has_infinity else np.nan, x)
    return np.where(np.abs(rounded) > format.largest, beyond, rounded)


def scaled_rounding(x, format: Format, *, axis=None) -> "Float[Array, '*b']":
    """Return x rounded, scaled so that its largest entry is the largest of the format.

    `axis` names the axes that share a scale; None is one scale for all.
    """
    x = _float64(x)
    top = np.abs(x).max(axis=axis, keepdims=True, initial=0.0)
    scale = np.where(top > 0, format.largest / np.where(top > 0, top, 1.0), 1.0)
    return round_to(x * scale, format) / scale


class LossScale(NamedTuple):
    """What dynamic loss scaling keeps from step to step."""

    scale: float = 2.0**16
    clean: int = 0  # steps without an overflow since the scale last changed


def loss_scaling(
    state: LossScale, gradients, *, growth=2.0, backoff=0.5, interval=2000
) -> "tuple[LossScale, list[np.ndarray] | None]":
    """Return the next state, and the gradients unscaled.   Book: {eq}`loss-scaling`.

    `gradients` are those of scale · loss. Where one of them overflowed, None is returned
    in their place: the step is left out.
    """
    gradients = [shapes.float64("gradients", x) for x in gradients]
    if not all(np.isfinite(x).all() for x in gradients):
        return LossScale(state.scale * backoff), None
    unscaled = [x / state.scale for x in gradients]
    if state.clean + 1 < interval:
        return LossScale(state.scale, state.clean + 1), unscaled
    return LossScale(state.scale * growth), unscaled


def _float64(x):
    return shapes.float64("x", x if hasattr(x, "detach") else np.asarray(x))
