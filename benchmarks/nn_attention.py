"""What do the guarantees of `mha.nn.attention` cost over bare torch?   python benchmarks/nn_attention.py

The ratio of its time to that of torch's scaled dot-product attention on the same tensors, forward alone and with the
backward pass. The two take turns in one process, and so does torch against itself: that ratio says what noise is.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from provenance import save

from mha import masks, nn

HEADS, WIDTH, ROUNDS = 8, 64, {64: 301, 256: 101, 1024: 21}


def calls(n):
    """Return, by mask, what to time: ours, torch's, and torch's once more."""
    see = torch.rand(n, n, generator=torch.Generator().manual_seed(1)) > 0.3
    cases = {
        "none": ({}, {}),
        "causal": ({"mask": masks.causal}, {"is_causal": True}),
        "bool": ({"mask": see}, {"attn_mask": see}),
    }
    bare = F.scaled_dot_product_attention
    return {name: [(nn.attention, ours), (bare, theirs), (bare, theirs)] for name, (ours, theirs) in cases.items()}


def seconds(function, options, tensors, d_out):
    """Time one forward pass, or one with its backward pass if there is a `d_out`."""
    start = time.perf_counter()
    out = function(*tensors, **options)
    if d_out is not None:
        torch.autograd.grad(out, tensors, d_out)
    return time.perf_counter() - start


def ratios(n, contenders, backward):
    """Return the medians of ours and of torch again, both over torch's."""
    make = torch.Generator().manual_seed(0)
    tensors = [torch.randn(1, HEADS, n, WIDTH, generator=make).requires_grad_(backward) for _ in range(3)]
    d_out = torch.randn(1, HEADS, n, WIDTH, generator=make) if backward else None
    samples = [[] for _ in contenders]
    for round_ in range(ROUNDS[n] + 5):
        turn = round_ % len(contenders)  # who goes first changes
        for which in [*range(turn, len(contenders)), *range(turn)]:
            taken = seconds(*contenders[which], tensors, d_out)
            if round_ >= 5:
                samples[which].append(taken)
    ours, bare, again = map(statistics.median, samples)
    return {"ratio": round(ours / bare, 3), "noise": round(again / bare, 3), "torch_ms": round(bare * 1e3, 4)}


def main():
    torch.set_num_threads(1)
    found = {
        direction: {str(n): {name: ratios(n, case, backward) for name, case in calls(n).items()} for n in ROUNDS}
        for direction, backward in (("forward", False), ("forward and backward", True))
    }
    for direction, by_length in found.items():
        for n, by_mask in by_length.items():
            print(direction, n, by_mask)
    setting = {"heads": HEADS, "width": WIDTH, "batch": 1, "threads": 1, "dtype": "float32", "rounds": ROUNDS}
    note = "medians of interleaved runs in one process, one run, on a machine shared with other work"
    save("nn_attention", {"setting": setting, "over_torch": found}, note=note)


if __name__ == "__main__":
    main()
