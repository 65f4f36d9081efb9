"""How do time and memory of attention grow with the length?   python benchmarks/cost.py

One head of width 64, one sample, float32, one thread. `composed` stores the weights, `fused` never does. Memory is the
most that the process held during the call beyond what it held before it, as Linux counts it. Slopes are those of a
line through the logarithms of the longest lengths: 1 says linear, 2 quadratic.
"""

import ctypes
import gc
import re
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from provenance import save

from mha import cost, nn

WIDTH, LENGTHS, ROUNDS, FITTED = 64, (512, 1024, 2048, 4096, 8192), 7, 3


def composed(q, k, v):
    return nn.attention_weights(q, k) @ v


PATHS = {"composed": composed, "fused": nn.attention}


def tensors(n, backward):
    make = torch.Generator().manual_seed(0)
    return [torch.randn(1, 1, n, WIDTH, generator=make).requires_grad_(backward) for _ in range(3)]


def run(path, inputs, backward):
    out = path(*inputs)
    if backward:
        torch.autograd.grad(out.sum(), inputs)


def status(name):
    """Return a line of the process's account of its memory, in bytes."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE).group(1))


def peak(path, inputs, backward):
    """Return the most memory held during a call, beyond what was held before."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = status("VmRSS")
    run(path, inputs, backward)
    return status("VmHWM") - before


def measure(backward):
    """Return seconds[path][n], the median of rounds in which all take turns, and bytes[path][n]."""
    inputs = {n: tensors(n, backward) for n in LENGTHS}
    samples = {name: {n: [] for n in LENGTHS} for name in PATHS}
    for round_ in range(ROUNDS + 1):
        for n in LENGTHS:
            for name, path in PATHS.items():
                start = time.perf_counter()
                run(path, inputs[n], backward)
                if round_:
                    samples[name][n].append(time.perf_counter() - start)
    seconds = {name: {n: statistics.median(s) for n, s in by_length.items()} for name, by_length in samples.items()}
    memory = {name: {n: peak(path, inputs[n], backward) for n in LENGTHS} for name, path in PATHS.items()}
    return seconds, memory


def slope(by_length):
    """Return the exponent of n: the slope through the logarithms of the longest lengths."""
    n, value = np.log(list(by_length)[-FITTED:]), np.log(list(by_length.values())[-FITTED:])
    return round(float(np.polyfit(n, value, 1)[0]), 2)


def main():
    torch.set_num_threads(1)
    result = {"setting": {"heads": 1, "width": WIDTH, "dtype": "float32", "threads": 1, "rounds": ROUNDS}}
    for direction, backward in (("forward", False), ("forward and backward", True)):
        seconds, memory = measure(backward)
        result[direction] = {
            "seconds": {name: {n: round(s, 6) for n, s in by_length.items()} for name, by_length in seconds.items()},
            "bytes": memory,
            "slope of time": {name: slope(by_length) for name, by_length in seconds.items()},
            "slope of memory": {name: slope(by_length) for name, by_length in memory.items()},
        }
    kept = {n: cost.composed_activations(n, 1, WIDTH, itemsize=4) for n in LENGTHS}
    result["kept by formula"] = kept
    print({direction: result[direction] for direction in ("forward", "forward and backward")})
    save("cost", result, note="medians of one run; slopes over the three longest lengths")


if __name__ == "__main__":
    main()
