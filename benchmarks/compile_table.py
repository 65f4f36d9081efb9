"""What does the compiler make of each kernel, for each architecture?   python benchmarks/compile_table.py

Needs no GPU: the launches of the calls in tests/compiled are compiled and read, not run. Per launch: registers of a
thread, bytes of its stack, spill instructions in the machine code, bytes of shared memory of a program, and how often
instructions stand in the PTX.
"""

import sys
from pathlib import Path

from provenance import provenance, save
from triton.backends.nvidia.compiler import get_ptxas

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from compiled.expected import ARCHITECTURES, compiled

WIDTHS = {
    "forward": (40, 64, 72, 88, 96, 120, 128, 256),
    "backward": (64, 128),
    "decode": (64, 128),
    "linear": (64, 128),
}
INSTRUCTIONS = "mma.sync", "wgmma", "tcgen05", "cp.async 16", "cp.async"


def rows():
    """Return one record for each launch, in the order of the calls."""
    return [
        record(call, width, launch)
        for call, widths in WIDTHS.items()
        for width in widths
        for architecture in ARCHITECTURES
        for launch in compiled(call, architecture, width)
        if call != "backward" or launch.kernel != "forward_kernel"  # which has its own rows
    ]


def record(call, width, launch):
    tile = {name.lower(): launch.constants.get(name) for name in ("BM", "BN")}
    names = "kernel", "architecture", "warps", "stages", "registers", "stack", "spills", "shared"
    counts = {name: launch.count(name) for name in INSTRUCTIONS if launch.count(name)}
    return {"call": call, "width": width, **tile} | {name: getattr(launch, name) for name in names} | {"ptx": counts}


def main():
    assemblers = {f"sm_{architecture}": get_ptxas(architecture).version for architecture in ARCHITECTURES}
    table = rows()
    for row in table:
        print(row)
    result = {"provenance": provenance(("torch", "triton")), "assembler": assemblers, "rows": table}
    save("compile_table", result, note="compiled ahead of time, on no GPU")


if __name__ == "__main__":
    main()
