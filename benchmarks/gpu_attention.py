"""Are the kernels right on this GPU, and how fast?   python benchmarks/gpu_attention.py [--minutes 8] [--out FILE]

In this order: the ceilings of the device (matrix product, copy); a sweep of tile sizes, whose winners serve the rest; a
grid of options against float64; repeats that must give the same bits; forward and backward over lengths and widths
beside torch's own attention; grouped heads, windows, sparse masks, decoding, linear attention; FlexAttention. Inputs
are random. The file is written after each section, and what there was no time for is named in it.

`--tiny` goes through all of it with small sizes, in Triton's interpreter, where times mean nothing.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from provenance import provenance, write

sys.path.append(str(Path(__file__).parents[1]))  # where mha is not installed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=8.0, help="no row is begun later")
    parser.add_argument("--out", type=Path, help="by default mha/data/results/gpu_attention.json")
    parser.add_argument("--tiny", action="store_true", help="small sizes in Triton's interpreter")
    arguments = parser.parse_args()
    if arguments.tiny:
        os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton
    import torch

    if not arguments.tiny and not torch.cuda.is_available():
        raise SystemExit("No CUDA device: nothing can be measured here. --tiny goes through the script without one.")
    import gpu_sections  # not in the helpers, which compile and must not touch the device

    measure(gpu_sections, time.monotonic() + 60 * arguments.minutes, arguments.out)


def measure(sections, end, out):
    """Run the sections until the time is up, and write what there is after each."""
    result = {
        "provenance": provenance(("numpy", "torch", "triton")),
        "note": "ms: median, 20th and 80th percentile",
        "device": sections.device(),
        "left_out": [],
        "seconds": {},
    }
    for section in sections.SECTIONS:
        name, started = section.__name__, time.monotonic()
        result[name] = []
        for row in rows(section) if started < end else ():
            result[name].append(row)
            print(name, row, flush=True)
            if time.monotonic() > end:
                break
        if time.monotonic() > end:
            result["left_out"].append(name)
        result["seconds"][name] = round(time.monotonic() - started, 1)
        write("gpu_attention", result, path=out)


def rows(section):
    """Give the rows of a section; the last one says what ended it before its time."""
    try:
        yield from section()
    except Exception as error:
        yield {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
