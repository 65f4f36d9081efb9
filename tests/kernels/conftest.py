"""Kernels run in Triton's interpreter, which must be chosen before triton is imported: a process of their own.

Whatever a kernel leaves unwritten is NaN, and an int32 that overflows stops it instead of wrapping round.
"""

import dataclasses

import pytest
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction, interpreter_builder

if not isinstance(tl.cdiv, InterpretedFunction):  # whatever the variable says now
    raise pytest.UsageError(
        "triton was imported without its interpreter, which these tests need: "
        "TRITON_INTERPRET=1 python -m pytest tests/kernels"
    )

torch.set_num_threads(1)
interpreter_builder.options = dataclasses.replace(interpreter_builder.options, debug=True)  # finds int32 overflow


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Fill what torch.empty gives with NaN (integers: the largest), by torch's own means."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
