"""What every compiled kernel must be: within the device's memory and registers, on its tensor cores, loading widely."""

import re
from pathlib import Path

import pytest
import triton

from compiled.calls import CALLS
from mha.kernels.ahead_of_time import compiling_for
from mha.kernels.tile_sizes import SHARED_MEMORY

ARCHITECTURES = (75, 80, 89, 90, 100)
LOCK = (Path(__file__).parents[2] / "requirements.lock").read_text("utf-8")
LOCKED = re.search(r"^triton==([\d.]+)", LOCK, re.MULTILINE).group(1)
# Tiles were chosen with the locked compiler. Where registers are full, others may spill up to 41 instructions.
MOST_SPILLS, MOST_STACK = (16, 64) if triton.__version__ == LOCKED else (48, 80)
TENSOR_CORES = {75: set(), 80: {"mma.sync"}, 89: {"mma.sync"}, 90: {"wgmma"}, 100: {"tcgen05"}}
WITHOUT_PRODUCTS = {"row_terms_kernel", "merge_kernel"}


def cases(*calls, widths=(64, 128), architectures=ARCHITECTURES, quick=()):
    """Return the (call, architecture, width) to compile; all are slow but those at width 64 for `quick` devices."""
    return [
        pytest.param(call, a, width, id=f"{call}-sm_{a}-{width}", marks=_marks(a in quick and width == 64))
        for call in calls
        for a in architectures
        for width in widths
    ]


def _marks(quick):
    return () if quick else pytest.mark.slow


def compiled(call, architecture, width):
    """Return what one of CALLS launches, compiled."""
    with compiling_for(architecture) as launches:
        CALLS[call](architecture, width)
    assert launches, f"{call} launches nothing"
    return launches


def assert_sound(launches, *, newest=True):
    """Raise with all that is wrong. `newest` asks for the tensor-core instruction that is the architecture's own."""
    wrong = [f"{describe(launch)}: {fault}" for launch in launches for fault in faults(launch, newest)]
    assert not wrong, "\n".join(wrong)


def faults(launch, newest):
    limit = SHARED_MEMORY[launch.architecture]
    if launch.shared > limit:
        yield f"{launch.shared} bytes of shared memory, at most {limit}"
    if launch.spills > MOST_SPILLS or launch.stack > MOST_STACK:
        yield f"{launch.spills} spills (at most {MOST_SPILLS}), {launch.stack} bytes of stack (at most {MOST_STACK})"
    if launch.kernel in WITHOUT_PRODUCTS:
        return
    used = {name for name in ("mma.sync", "wgmma", "tcgen05") if launch.count(name)}
    own = TENSOR_CORES[launch.architecture]
    if used != own and (newest or bool(used) != bool(own)):
        yield f"multiplies by {used or 'no tensor core'}, not {own or 'without tensor cores'}"


def assert_wide_loads(launch):
    """Raise unless there are asynchronous loads, and each of them brings 16 bytes."""
    wide, all_sizes = launch.count("cp.async 16"), launch.count("cp.async")
    assert 0 < wide == all_sizes, f"{describe(launch)}: {wide} of {all_sizes} asynchronous loads bring 16 bytes"


def describe(launch):
    tile = "x".join(str(launch.constants[name]) for name in ("BM", "BN") if name in launch.constants)
    return f"{launch.kernel} sm_{launch.architecture} {tile} {launch.warps} warps {launch.stages} stages"
