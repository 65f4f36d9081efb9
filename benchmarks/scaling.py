"""Where is the wall?   python benchmarks/scaling.py

Time and largest memory of exact attention and of what is done about it, against the length, each measurement in a
fresh process of one thread; layers cut into more and more heads; the parts of a layer; a token of decoding against
the length of its cache; and the rates of this processor, with which `mha.cost` predicts the same numbers. Memory is
what the peak exceeds the inputs by. About 3 minutes. `--tiny` runs all of it on short lengths and writes nothing.
"""

import argparse
import ctypes
import gc
import multiprocessing
import re
import statistics
import time
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from provenance import save

from mha import masks, nn

WIDTH, BOTH = 64, "forward and backward"
LENGTHS, HEADS, SIDE, FEATURES, SEGMENTS = [2**k for k in range(7, 15)], [1, 2, 4, 8, 16], 128, 256, 64
LAYER = {"d_model": 256, "num_heads": 4, "d_mlp": 1024}
CUT = {"d_model": 512, "n": 2048}
DECODE = {"num_heads": 8, "lengths": [2**k for k in range(10, 17)], "groups": [8, 2, 1], "window": 1024}
SMALL = {"LENGTHS": [128, 256], "HEADS": [1, 2], "CUT": {"d_model": 64, "n": 128}}
SMALL |= {"DECODE": {**DECODE, "lengths": [128, 256], "window": 128}}
LIBC, MMAP_THRESHOLD = ctypes.CDLL("libc.so.6"), -3


def stored(q, k, v, *, dropout=None, **options):
    """Attention that stores its weights, as the formula says it."""
    return nn.attention_weights(q, k, **options) @ v


FORMS = {
    "stored": lambda: stored,
    "fused": lambda: nn.attention,
    "window": lambda: partial(nn.attention, mask=masks.window(SIDE, SIDE)),
    "linear": nn.FeatureAttention,
    "low rank": lambda: nn.Nystrom(SEGMENTS),
    "random features": lambda: nn.Performer(FEATURES, WIDTH),
}


def call(function, inputs, backward):
    """Return the function to measure: a forward pass, or one with the gradients of all inputs."""
    if not backward:
        return torch.no_grad()(lambda: function(*inputs))
    leaves = [x.requires_grad_() for x in inputs]
    return lambda: torch.autograd.grad(function(*leaves), leaves, torch.ones_like(leaves[0]))


def core(form, n, backward):
    make = torch.Generator().manual_seed(0)
    rows = [torch.randn(1, 1, n, WIDTH, generator=make) for _ in range(3)]
    return call(FORMS[form](), rows, backward)


def layer(form, num_heads, n, backward):
    torch.manual_seed(0)
    module = nn.MultiHeadAttention(CUT["d_model"], num_heads, core=FORMS[form]())
    return call(module, [torch.randn(1, n, CUT["d_model"])], backward)


def peak(make, *setting):
    """Return the most bytes that a call held beyond what was held before it."""
    *kind, n, backward = setting
    make(*kind, LENGTHS[0], backward)()  # what every first call sets up
    run = make(*kind, n, backward)
    LIBC.mallopt(MMAP_THRESHOLD, 2**16)  # from here on, what is freed goes back to the system at once
    gc.collect()
    LIBC.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = held("VmRSS")
    run()
    return held("VmHWM") - before


def held(name):
    """Return a line of the process's account of its memory, in bytes."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE).group(1))


def seconds(make, *setting):
    return timed(make(*setting))


def timed(run, rounds=5, patience=0.4):
    """Return the median time of up to `rounds` calls, as many as `patience` seconds hold, after a first one."""
    samples = []
    run()
    while len(samples) < rounds and sum(samples) < patience:
        start = time.thread_time()
        run()
        samples.append(time.thread_time() - start)
    return float(f"{statistics.median(samples):.3g}")


def parts(n):
    """Return the seconds of the parts of a layer: its projections, its attention and the feed-forward layer."""
    d, num_heads, d_mlp = LAYER.values()
    torch.manual_seed(0)
    x, rows = torch.randn(1, n, d), torch.randn(3, 1, num_heads, n, d // num_heads)
    projections = [torch.nn.Linear(d, d) for _ in range(4)]
    mlp = torch.nn.Sequential(torch.nn.Linear(d, d_mlp), torch.nn.ReLU(), torch.nn.Linear(d_mlp, d))
    with torch.no_grad():
        return {
            "projections": timed(lambda: [project(x) for project in projections]),
            "stored": timed(lambda: stored(*rows)),
            "fused": timed(lambda: nn.attention(*rows)),
            "feed-forward": timed(lambda: mlp(x)),
        }


def step(n):
    """Return the seconds of one query on n cached positions, by the number of key heads, on a window and on a state."""
    heads, window, make = DECODE["num_heads"], DECODE["window"], torch.Generator().manual_seed(0)
    q = torch.randn(1, heads, 1, WIDTH, generator=make)
    found = {}
    with torch.no_grad():
        for groups in DECODE["groups"]:
            k, v = (torch.randn(1, groups, n, WIDTH, generator=make) for _ in range(2))
            found[f"{groups} key heads"] = timed(lambda k=k, v=v: nn.attention(q, k, v), rounds=21)
        k, v = (torch.randn(1, heads, window, WIDTH, generator=make) for _ in range(2))
        found["window"] = timed(lambda: nn.attention(q, k, v), rounds=21)
        _, state = nn.linear_average(F.elu(k) + 1, F.elu(k) + 1, v)
        new = F.elu(k[..., -1:, :]) + 1
        found["state"] = timed(lambda: nn.linear_average(q, new, v[..., -1:, :], state=state), rounds=21)
    return found


def rates():
    """Return what the one thread reaches: operations a second in a product, bytes a second in reading and writing."""
    a, b, large = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.randn(2**26)
    out = torch.empty_like(large)
    product, copy = timed(lambda: a @ b, patience=2), timed(lambda: torch.neg(large, out=out), patience=2)
    return {"flops_per_second": round(2 * 1024**3 / product), "bytes_per_second": round(2 * large.nbytes / copy)}


def fresh(function, *arguments):
    """Return what the function returns in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, arguments)


def growth():
    """Return {quantity: {direction: {form: values by length}}}."""
    found = {"seconds": {}, "bytes": {}}
    for direction, backward in (("forward", False), (BOTH, True)):
        for form in FORMS:
            for quantity, measure in (("seconds", seconds), ("bytes", peak)):
                values = [fresh(measure, core, form, n, backward) for n in LENGTHS]
                found[quantity].setdefault(direction, {})[form] = values
                print(quantity, direction, form, values, flush=True)
    return found


def by_heads():
    """Return {form: seconds and bytes of a forward pass of a layer, and bytes with gradients, by number of heads}."""
    found = {}
    for form in ("stored", "fused"):
        cases = [(layer, form, num_heads, CUT["n"]) for num_heads in HEADS]
        found[form] = {
            "seconds": [fresh(seconds, *case, False) for case in cases],
            "bytes": [fresh(peak, *case, False) for case in cases],
            "bytes with gradients": [fresh(peak, *case, True) for case in cases],
        }
        print(form, found[form], flush=True)
    return found


def columns(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def measure():
    setting = {"width": WIDTH, "lengths": LENGTHS, "window": 2 * SIDE + 1, "features": FEATURES, "segments": SEGMENTS}
    result = {"setting": {**setting, "threads": 1, "dtype": "float32"}, "rates": fresh(rates)}
    print(result["rates"], flush=True)
    result |= growth()
    result["heads"] = {**CUT, "num_heads": HEADS, "forms": by_heads()}
    result["layer"] = {**LAYER, "lengths": LENGTHS[:-1], "seconds": columns([fresh(parts, n) for n in LENGTHS[:-1]])}
    result["decoding"] = {**DECODE, "seconds": columns([fresh(step, n) for n in DECODE["lengths"]])}
    print(result["layer"], result["decoding"], sep="\n")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="short lengths, nothing written")
    torch.set_num_threads(1)
    if parser.parse_args().tiny:
        globals().update(SMALL)
        return measure()
    save("scaling", measure(), note="medians of one run, seconds that the one thread was busy")


if __name__ == "__main__":
    main()
