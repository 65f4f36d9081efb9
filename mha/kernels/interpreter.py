"""What Triton's interpreter gets wrong, put right, so that kernels mean on a CPU what they mean on a device.

The interpreter (3.6 to 3.9) keeps a bfloat16 as its 16 bits and computes with those bits as integers, and it cuts
float32 off where a device rounds to the nearest even number. Here casts, products of tiles and arithmetic of two
bfloat16 go through float32. Sums and functions of one bfloat16 are left as they are: kernels take them in float32.
A NaN in a hidden key is no news either: like a device, the interpreter meets it without a warning.
"""

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

__all__ = ["install"]

Builder, Handle = interpreter.InterpreterBuilder, interpreter.TensorHandle


def install():
    """Correct the interpreter of this process, once."""
    if getattr(Builder, "knows_bfloat16", False):
        return
    Builder.knows_bfloat16 = True
    Builder.create_dot = _dot(Builder.create_dot)
    Builder.binary_op = _binary(Builder.binary_op)
    Builder.cast_impl = _cast(Builder.cast_impl)
    interpreter._patch_lang_tensor = _with_index(interpreter._patch_lang_tensor)
    interpreter.GridExecutor.__call__ = np.errstate(all="ignore")(interpreter.GridExecutor.__call__)


def _dot(dot):
    def corrected(self, a, b, *rest):
        return dot(self, _widened(a), _widened(b), *rest)

    return corrected


def _binary(binary):
    def corrected(self, one, two, operator):
        if not _is_bfloat16(one.dtype):
            return binary(self, one, two, operator)
        out = operator(_widened(one).data, _widened(two).data)
        return Handle(out, tl.int1) if out.dtype == bool else Handle(_rounded(out), tl.bfloat16)

    return corrected


def _cast(cast):
    def corrected(self, given, to):
        if _is_bfloat16(to) and not _is_bfloat16(given.dtype):
            return Handle(_rounded(given.data), tl.bfloat16)
        return cast(self, _widened(given), to)

    return corrected


def _with_index(patch):
    """Let a scalar bound a `range`: Triton 3.6 cannot with NumPy 2.4."""

    def corrected(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    return corrected


def _is_bfloat16(dtype):
    return dtype.scalar == tl.bfloat16


def _widened(handle):
    """Return a bfloat16 as the float32 that it is; anything else as it came."""
    if not _is_bfloat16(handle.dtype):
        return handle
    return Handle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _rounded(numbers):
    """Return the bits of the nearest bfloat16, the even one where two are as near."""
    bits = np.array(numbers, np.float32, order="C", ndmin=1).view(np.uint32)
    nearest = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16
    is_nan = bits & 0x7FFFFFFF > 0x7F800000
    return np.where(is_nan, 0x7FC0, nearest).astype(np.uint16).reshape(np.shape(numbers))
