"""What do sparse patterns cost as the sequence grows?   python benchmarks/sparse.py

Time and memory of `mha.nn.attention` with each pattern as a mask, of torch's attention with the window as an array, and
with its causal flag, on lengths that double, each in a process of its own. Memory is what the peak
exceeds the inputs by. A pattern should cost what its visible tiles cost: its seconds per tile are set against those of
the window at the same length.
"""

import math
import multiprocessing
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from provenance import save

from mha import masks, nn

LENGTHS = 1024, 2048, 4096, 8192, 16384, 32768
LONGEST = {"dense": 16384}  # beyond, its mask as floats alone takes 4 GB
HEADS, WIDTH, WINDOW, TILE = 4, 64, 256, (64, 64)
OVER_DENSE, PER_TILE = 25, 0.3  # limits at 16,384: times faster, and the share by which a tile may cost more
REPEATS, SHORT = 3, 2.0  # runs of fewer seconds are repeated
MEASURED_AT = 16384


def stride(n):
    """Return about 2 √n, in whole tiles: a shorter stride than a tile meets every tile."""
    return TILE[1] * max(1, round(2 * math.sqrt(n) / TILE[1]))


def big_bird(n):
    plan = masks.big_bird_plan(0, n, block=64, number=3, num_heads=HEADS)
    return masks.big_bird(n, block=64, plan=plan)


def causal_strided(step):
    return masks.causal & (masks.window(step, 0) | masks.strided(step))


PATTERNS = {
    "window": lambda n: masks.window_of(WINDOW),
    "longformer": lambda n: masks.window(WINDOW // 2, WINDOW // 2),
    "big_bird": big_bird,
    "log_strided": lambda n: masks.log_strided,
    "strided_sqrt": lambda n: causal_strided(stride(n)),
    "strided_256": lambda n: causal_strided(256),
    "fixed_sqrt": lambda n: masks.causal & masks.fixed(stride(n), 8),
}
CONTENDERS = *PATTERNS, "is_causal", "dense"


def contender(name, n):
    """Return the function of (q, k, v), whatever it needs made beforehand, and the mask that it stands for."""
    if name == "is_causal":
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), masks.causal
    if name == "dense":
        mask = masks.window_of(WINDOW)
        see = torch.from_numpy(mask.dense(n, n))
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=see), mask
    mask = PATTERNS[name](n)
    if name == "longformer":
        is_global = torch.arange(n) < 1
        call = lambda q, k, v: nn.longformer_attention(q, k, v, q, k, v, is_global, local=mask)  # noqa: E731
        return call, mask | masks.global_tokens([0])
    return lambda q, k, v: nn.attention(q, k, v, mask=mask), mask


def row(name, n):
    """Return what one length costs: pairs, tiles, seconds and megabytes."""
    make = torch.Generator().manual_seed(0)
    q, k, v, d_out = (torch.randn(1, HEADS, n, WIDTH, generator=make) for _ in range(4))
    tiny = [x[..., :64, :].clone().requires_grad_() for x in (q, k, v)]
    torch.autograd.grad(nn.attention(*tiny).sum(), tiny)  # what the first call sets up
    before = _peak()
    function, mask = contender(name, n)
    with torch.no_grad():
        forward = _fastest(lambda: function(q, k, v))
    found = {"forward_s": forward, "forward_mb": _peak() - before}
    leaves = [x.requires_grad_() for x in (q, k, v)]
    found["with_backward_s"] = _fastest(lambda: torch.autograd.grad(function(q, k, v), leaves, d_out))
    found["with_backward_mb"] = _peak() - before
    if name in PATTERNS:
        tiles = mask.tiles(n, n, size=TILE)
        found |= {"tiles": len(tiles.index) / tiles.shape[1], "pairs": mask.pairs(n, n) / tiles.shape[1]}
    return {"n": n} | {key: float(f"{value:.4g}") for key, value in found.items()}


def _fastest(run):
    seconds = [_seconds(run)]
    while len(seconds) < REPEATS and seconds[0] < SHORT:
        seconds.append(_seconds(run))
    return min(seconds)


def _seconds(run):
    start = time.thread_time()
    run()
    return time.thread_time() - start


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def slope(rows, key, least=4096):
    """Return the exponent of n that fits the values best, from a length on."""
    n, values = zip(*[(found["n"], found[key]) for found in rows if found["n"] >= least], strict=True)
    return round(float(np.polyfit(np.log(n), np.log(values), 1)[0]), 3)


def verdicts(found):
    """Print how far the limits hold, and return the ratios at one length."""
    at = {name: next(x for x in rows if x["n"] == MEASURED_AT) for name, rows in found.items()}
    ratios = {}
    for key in ("forward_s", "with_backward_s"):
        ratios[f"dense_over_window_{key}"] = ratio = at["dense"][key] / at["window"][key]
        print(f"{key}: {ratio:.1f} × faster than dense, limit {OVER_DENSE}: {_held(ratio >= OVER_DENSE)}")
        for name in PATTERNS:
            per_tile = at[name][key] / at[name]["tiles"] * at["window"]["tiles"] / at["window"][key]
            ratios[f"{name}_per_tile_{key}"] = per_tile
            print(f"{key} of {name} per tile: {per_tile:.2f} of the window's: {_held(abs(per_tile - 1) <= PER_TILE)}")
    return {key: round(value, 3) for key, value in ratios.items()}


def _held(holds):
    return "holds" if holds else "MISSED"


def main():
    torch.set_num_threads(1)
    found = {}
    for name in CONTENDERS:
        lengths = [n for n in LENGTHS if n <= LONGEST.get(name, n)]
        with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            found[name] = [pool.apply(row, (name, n)) for n in lengths]
        keys = ("forward_s", "with_backward_s", *(("tiles", "pairs") if name in PATTERNS else ()))
        print(name, {key: slope(found[name], key) for key in keys}, found[name][-1], flush=True)
    keys = ("forward_s", "with_backward_s")
    slopes = {name: {key: slope(rows, key) for key in keys} for name, rows in found.items()}
    for name in PATTERNS:
        slopes[name] |= {key: slope(found[name], key) for key in ("tiles", "pairs")}
    setting = {"heads": HEADS, "width": WIDTH, "window": WINDOW, "tile": TILE, "threads": 1, "dtype": "float32"}
    results = {"setting": setting, "rows": found, "slopes": slopes, "ratios": verdicts(found)}
    save(
        "sparse",
        results,
        note="seconds that the one thread was busy, the least of up to three runs; slopes from 4096 on",
    )


if __name__ == "__main__":
    main()
