"""Small functions that the kernels share, in Triton's language: loads, offsets, tanh, and dropout's random bits."""

import triton
import triton.language as tl

__all__ = ["LN_2", "LOG2_E", "head_at", "kept", "load", "load_rows", "rows_at", "tanh"]

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x · LOG2_E)
LN_2: tl.constexpr = tl.constexpr(0.6931471805599453)


@triton.jit
def load(table, index):
    """Return table[index]: the `at` of a mask's rule."""
    return tl.load(table + index)


@triton.jit
def head_at(b, h, stride_b, stride_h, UNIT: tl.constexpr):
    """Return where the rows of sample b and head h begin, in 64 bits; strides count UNIT elements."""
    return (tl.cast(b, tl.int64) * stride_b + tl.cast(h, tl.int64) * stride_h) * UNIT


@triton.jit
def rows_at(i, stride, UNIT: tl.constexpr, WIDE: tl.constexpr):
    """Return where rows i begin within a head; WIDE where 32 bits do not reach the last one."""
    return i.to(tl.int64) * stride * UNIT if WIDE else i * (stride * UNIT)


@triton.jit
def load_rows(
    x, i, d, stride, n,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, ALL: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return the entries d of the rows i of x, two index arrays of two axes; 0 from row n on, and from WIDTH on.

    ALL promises that every row is below n, and PADDED tells that some d is not below WIDTH.
    """
    at = x + rows_at(i, stride, UNIT, WIDE) + d
    if ALL and not PADDED:
        rows = tl.load(at)
    elif ALL:
        rows = tl.load(at, mask=d < WIDTH, other=0.0)
    elif not PADDED:
        rows = tl.load(at, mask=i < n, other=0.0)
    else:
        rows = tl.load(at, mask=(i < n) & (d < WIDTH), other=0.0)
    return rows


@triton.jit
def tanh(x):
    """Return tanh x to float32's precision everywhere: by a polynomial near 0, where 1 − e⁻²ˣ would cancel."""
    size = tl.abs(x)
    small = tl.minimum(size, 0.625)
    z = small * small
    series = 2.06390887954e-2 - 5.70498872745e-3 * z
    series = ((series * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z - 3.33332819422e-1
    e = tl.exp2(size * (-2.0 * 1.4426950408889634))  # at most 1: no overflow
    result = tl.where(size < 0.625, small + small * z * series, (1.0 - e) / (1.0 + e))
    return tl.where(x < 0.0, -result, result)


@triton.jit
def kept(seed, offset, p):
    """Return which weights dropout keeps: the bits of `mha.dropout.Dropout`, by a weight's place in (b, h, i, j)."""
    return tl.rand(seed, offset) > p
