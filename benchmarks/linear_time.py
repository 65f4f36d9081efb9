"""What do time and memory of linear forms do with the length?   python benchmarks/linear.py runs it

Each form runs in a process of its own, on one thread, forward, against torch's attention; memory is what the peak
exceeds the inputs by.
"""

import json
import resource
import subprocess
import sys
import time
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from mha import masks, nn

__all__ = ["HEADS", "LENGTHS", "WIDTH", "seconds", "slope", "timing"]

LENGTHS, HEADS, WIDTH = [2**k for k in range(8, 15)], 4, 64


def reformer(n, rounds, **options):
    """Return the core with two buckets a chunk, as its authors advise, for queries that are the keys."""
    core = nn.Reformer(WIDTH, max(2, 2 * n // 64), rounds=rounds)
    return lambda q, k, v: core(q, q, v, **options)


def forms(n):
    """Return what is timed, by name: functions of q, k, v."""
    elu, performer, causal = nn.FeatureAttention(), nn.Performer(256, WIDTH), {"mask": masks.causal}
    return {
        "exact": F.scaled_dot_product_attention,
        "elu": elu,
        "performer": performer,
        "linformer": nn.Linformer(n, 256),
        "nystrom": nn.Nystrom(64),
        "reformer": reformer(n, 1),
        "exact causal": partial(F.scaled_dot_product_attention, is_causal=True),
        "elu causal": partial(elu, **causal),
        "performer causal": partial(performer, **causal),
        "reformer causal": reformer(n, 1, **causal),
        "reformer causal, 4 rounds": reformer(n, 4, **causal),
    }


@torch.no_grad()
def measure(name):
    """Return seconds and megabytes of a forward pass at each length."""
    torch.set_num_threads(1)
    make = torch.Generator().manual_seed(0)
    rows = [torch.randn(1, HEADS, LENGTHS[-1], WIDTH, generator=make) for _ in range(3)]
    forms(64)[name](*(x[..., :64, :].contiguous() for x in rows))
    found, before = {"seconds": [], "megabytes": []}, _peak()
    for n in LENGTHS:
        form, inputs = forms(n)[name], [x[..., :n, :].contiguous() for x in rows]
        found["seconds"].append(seconds(lambda form=form, inputs=inputs: form(*inputs)))
        found["megabytes"].append(round(_peak() - before - sum(x.nbytes for x in inputs) / 2**20))
    return found


def seconds(run):
    """Return the least seconds that the one thread was busy, of as many runs as half a second holds, at most 5."""
    samples = []
    while len(samples) < 5 and (not samples or sum(samples) < 0.5):
        start = time.thread_time()
        run()
        samples.append(time.thread_time() - start)
    return float(f"{min(samples):.3g}")


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def slope(x, y):
    """Return the exponent of the power law that fits best."""
    return round(float(np.polyfit(np.log(x), np.log(y), 1)[0]), 3)


def overtakes(name, found):
    """Return the length from which a form is faster than exact attention; None if none of the lengths is."""
    exact = found["exact causal" if "causal" in name else "exact"]["seconds"]
    ratio = np.log(np.divide(found[name]["seconds"], exact))
    slower = np.flatnonzero(ratio > 0)
    if not len(slower):
        return LENGTHS[0]
    last = slower[-1]
    if last == len(LENGTHS) - 1:
        return None
    share = ratio[last] / (ratio[last] - ratio[last + 1])
    return round(LENGTHS[last] * 2**share)


def timing():
    found = {}
    for name in forms(64):
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        one = found[name] = json.loads(done.stdout)
        one["slope"] = slope(LENGTHS[2:], one["seconds"][2:])
    for name, one in found.items():
        one["overtakes_at"] = None if name.startswith("exact") else overtakes(name, found)
        print(name, one, flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
