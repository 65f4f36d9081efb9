"""Where kernels run: on a CUDA device, or on the CPU in Triton's interpreter where that was chosen beforehand.

Triton reads TRITON_INTERPRET when it is imported, so a process either interprets or compiles.
"""

from contextvars import ContextVar
from functools import cache

import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

__all__ = ["CPU_STANDS_FOR", "architecture", "check_device", "interpreted", "is_captured", "jit"]


def interpreted():
    """Tell whether this process runs kernels in Triton's interpreter."""
    return type(tl.cdiv) is InterpretedFunction  # also where the documentation replaces triton


@cache  # one compiled form of a function, whoever asks
def jit(function):
    """Return a function as kernels call it: compiled, or as it is where the interpreter runs it."""
    return function if interpreted() else triton.jit(function)


# The architecture that CPU tensors stand for, if kernels take them at all. The interpreter's is the oldest one whose
# tensor cores Triton uses; `mha.kernels.ahead_of_time` chooses its own.
CPU_STANDS_FOR: ContextVar[int | None] = ContextVar("CPU_STANDS_FOR", default=80 if interpreted() else None)


def check_device(**tensors):
    """Raise unless kernels can run on all these tensors; None stands for one that was not given."""
    given = {name: x.device for name, x in tensors.items() if x is not None}
    first, *rest = given
    for name in rest:
        if given[name] != given[first]:
            raise ValueError(f"{name} is on {given[name]} and {first} is on {given[first]}: expected one device")
    device = given[first]
    if device.type == "cpu" and architecture(device) is None:
        raise ValueError(
            f"{first} is on the CPU: kernels take CUDA tensors; mha.nn takes these, and so does Triton's slow"
            " interpreter if the environment holds TRITON_INTERPRET=1 before triton is first imported"
        )
    if device.type not in ("cuda", "cpu"):
        raise ValueError(f"{first} is on {device}: expected CUDA tensors")


@torch.compiler.assume_constant_result  # torch.compile need not trace how it is found out
def architecture(device):
    """Return the compute capability of a device as two digits: 75 Turing, 80 Ampere, 90 Hopper, 100 Blackwell."""
    if device.type == "cpu":
        return CPU_STANDS_FOR.get()
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def is_captured(device):
    """Tell whether what runs on this device now becomes part of a CUDA graph, and will run again."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


if interpreted():
    from mha.kernels import interpreter

    interpreter.install()
