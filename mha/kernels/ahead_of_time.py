"""Compile, for any architecture and without a GPU, the very kernels that a call would launch, and read the result.

Triton's package carries NVIDIA's assembler and disassembler. A call inside `compiling_for` runs as on a device, up to
each launch: the kernel is compiled with the tile sizes, flags and argument marks of that launch, and is not run.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import triton.backends.nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from mha.kernels import runtime

__all__ = ["Compiled", "compiling_for"]

PROGRAMS = Path(triton.backends.nvidia.__file__).parent / "bin"
INSTRUCTIONS = {
    "mma.sync": r"\bmma\.sync",
    "wgmma": r"\bwgmma\.mma_async",
    "tcgen05": r"\btcgen05\.mma",
    "cp.async 16": r"\bcp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], 0x10\b",
    "cp.async": r"\bcp\.async\.c[ag]\.shared\.global",
    "ld 16-bit": r"\bld\.global\S*\.b16",
}


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of one launch: bytes of stack and of shared memory, spill instructions, PTX."""

    kernel: str
    architecture: int
    constants: dict
    warps: int
    stages: int
    registers: int
    stack: int
    spills: int
    shared: int
    ptx: str

    def count(self, instruction):
        """Return how often the PTX holds an instruction, one of INSTRUCTIONS."""
        return len(re.findall(INSTRUCTIONS[instruction], self.ptx))


@contextmanager
def compiling_for(architecture: int) -> "Iterator[list[Compiled]]":
    """Compile what is launched inside, on CPU tensors, for an architecture; give the list that fills with the results.

    Outputs of calls inside are never written. Not for a process that interprets: an interpreted kernel has no source.
    """
    if runtime.interpreted():
        raise ValueError("TRITON_INTERPRET is set: expected a process that compiles; nothing can be compiled here")
    launches: list[Compiled] = []
    run = JITFunction.run

    def compile_only(self, *args, grid, warmup, **options):
        launches.append(read(run(self, *args, grid=grid, warmup=True, **options), architecture))

    before = driver.active if driver._active else None
    driver.set_active(Device(architecture))
    token = runtime.CPU_STANDS_FOR.set(architecture)
    try:
        with mock.patch.object(JITFunction, "run", compile_only):
            yield launches
    finally:
        runtime.CPU_STANDS_FOR.reset(token)
        driver.set_active(before)


class Device:
    """What Triton asks of a driver in order to compile. Each architecture is a device: Triton caches by device."""

    def __init__(self, architecture):
        self.architecture = architecture

    def get_current_target(self):
        return GPUTarget("cuda", self.architecture, 32)

    def get_current_device(self):
        return self.architecture

    def get_current_stream(self, device):
        return 0


def read(kernel: CompiledKernel, architecture) -> Compiled:
    """Return what the assembler tells about a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        usage = program("cuobjdump", "-res-usage", file.name)
        machine_code = program("nvdisasm", "-c", file.name)
    ((registers, stack),) = re.findall(r"REG:(\d+) STACK:(\d+)", usage)
    constants = {kernel.src.fn.arg_names[path[0]]: x for path, x in kernel.src.constants.items()}
    return Compiled(
        kernel=kernel.metadata.name,
        architecture=architecture,
        constants={name: x for name, x in constants.items() if isinstance(x, int)},
        warps=kernel.metadata.num_warps,
        stages=kernel.metadata.num_stages,
        registers=int(registers),
        stack=int(stack),
        spills=len(re.findall(r"\b(?:LDL|STL)\b", machine_code)),
        shared=kernel.metadata.shared,
        ptx=kernel.asm["ptx"],
    )


def program(name, *arguments):
    """Return what one of NVIDIA's programs prints."""
    done = subprocess.run([PROGRAMS / name, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
