"""What both kernels of linear attention compute of one chunk, and how they multiply sums."""

import triton
import triton.language as tl

from mha.kernels.language import rows_at

__all__ = ["product", "reach_of"]


@triton.jit
def reach_of(log_decay, i, stride, n, BACKWARD: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr):
    """Return, in logarithms, what is left of the state that enters a chunk at each of its tokens, and at its other end.

    Forward, a state enters before the first token, and a token's own decay counts; BACKWARD it enters behind the last.
    """
    steps = tl.load(log_decay + rows_at(i, stride, UNIT, WIDE), mask=i < n, other=0.0)  # [C]
    since = tl.cumsum(steps, 0)  # [C]
    whole = tl.sum(steps, 0)
    return whole - since if BACKWARD else since, whole


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """Return a @ b. Beside sums in float32 a float16 is widened: TF32 has all its digits, and the range of sums."""
    if a.dtype != b.dtype:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)
