"""How do time and memory of attention grow with the length?   python benchmarks/cost.py

One head of width 64, one sample, float32, one thread. `composed` stores the weights, `fused` never does. Time is that
of the processor, which other work on the machine does not touch. Memory is the most that the process held during the
call beyond what it held before it, as Linux counts it. Slopes are those of a line through the logarithms of the
longest lengths: 1 says linear, 2 quadratic.
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

WIDTH, LENGTHS, ROUNDS, FITTED = 64, (512, 1024, 2048, 4096, 8192), 5, 3
LIBC, MMAP_THRESHOLD = ctypes.CDLL("libc.so.6"), -3


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
    LIBC.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = status("VmRSS")
    run(path, inputs, backward)
    return status("VmHWM") - before


def times(backward):
    """Return seconds[path][n], the median of rounds in which all take turns."""
    inputs = {n: tensors(n, backward) for n in LENGTHS}
    samples = {name: {n: [] for n in LENGTHS} for name in PATHS}
    for round_ in range(ROUNDS + 1):
        for n in LENGTHS:
            for name, path in PATHS.items():
                start = time.process_time()
                run(path, inputs[n], backward)
                if round_:
                    samples[name][n].append(time.process_time() - start)
    return {
        name: {n: round(statistics.median(s), 6) for n, s in by_length.items()} for name, by_length in samples.items()
    }


def peaks(backward):
    """Return bytes[path][n]; the fused path needs longer inputs to stand out from what every call takes."""
    lengths = {"composed": LENGTHS, "fused": (*LENGTHS, 16384, 32768)}
    return {
        name: {n: peak(path, tensors(n, backward), backward) for n in lengths[name]} for name, path in PATHS.items()
    }


def slope(by_length):
    """Return the exponent of n: the slope through the logarithms of the longest lengths."""
    n, value = np.log(list(by_length)[-FITTED:]), np.log(list(by_length.values())[-FITTED:])
    return round(float(np.polyfit(n, value, 1)[0]), 2)


def main():
    torch.set_num_threads(1)
    setting = {"heads": 1, "width": WIDTH, "dtype": "float32", "threads": 1, "rounds": ROUNDS}
    directions = {"forward": False, "forward and backward": True}
    seconds = {direction: times(backward) for direction, backward in directions.items()}
    LIBC.mallopt(MMAP_THRESHOLD, 2**16)  # from here on, what is freed goes back to the system at once
    memory = {direction: peaks(backward) for direction, backward in directions.items()}
    slopes = {
        quantity: {d: {name: slope(x) for name, x in by_path.items()} for d, by_path in by_direction.items()}
        for quantity, by_direction in (("seconds", seconds), ("bytes", memory))
    }
    kept = {n: cost.composed_activations(n, 1, WIDTH, itemsize=4) for n in LENGTHS}
    print(slopes, memory, seconds, sep="\n")
    result = {"setting": setting, "slopes": slopes, "seconds": seconds, "bytes": memory, "kept by formula": kept}
    save("cost", result, note="medians of one run; slopes over the three longest lengths")


if __name__ == "__main__":
    main()
