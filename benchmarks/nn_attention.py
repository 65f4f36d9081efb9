"""What do the guarantees of `mha.nn.attention` cost over bare torch?   python benchmarks/nn_attention.py

The ratio of its time to that of torch's scaled dot-product attention on the same tensors, forward alone and with the
backward pass. The two take turns in one process, and so does torch against itself: that ratio says what noise is.
"""

import torch
import torch.nn.functional as F
from provenance import save
from turns import grad_of, medians, verdict

from mha import masks, nn

HEADS = 8
SIZES = {
    "small": (1, 64, 64),
    "medium": (1, 256, 64),
    "long": (1, 1024, 64),
    "batch": (8, 64, 64),
}  # batch, length, width
ROUNDS = {"small": 601, "medium": 151, "long": 25, "batch": 101}
LIMITS = {  # by length
    "none": {64: 1.15, 256: 1.05, 1024: 1.02},
    "causal": {64: 1.15, 256: 1.05, 1024: 1.02},
    "bool": {256: 1.15, 1024: 1.03},
}


def options(n):
    """Return, by mask, the options of ours and of torch's."""
    see = torch.rand(n, n, generator=torch.Generator().manual_seed(1)) > 0.3
    return {
        "none": ({}, {}),
        "causal": ({"mask": masks.causal}, {"is_causal": True}),
        "bool": ({"mask": see}, {"attn_mask": see}),
    }


def ratios(size, ours, theirs, backward):
    """Return the medians of ours and of torch once more, both over torch's."""
    batch, n, width = SIZES[size]
    make = torch.Generator().manual_seed(0)
    tensors = [torch.randn(batch, HEADS, n, width, generator=make).requires_grad_(backward) for _ in range(3)]
    d_out = torch.randn(batch, HEADS, n, width, generator=make) if backward else None
    bare = grad_of(lambda: F.scaled_dot_product_attention(*tensors, **theirs), tensors, d_out)
    contenders = {
        "ours": grad_of(lambda: nn.attention(*tensors, **ours), tensors, d_out),
        "torch": bare,
        "again": lambda: bare(),
    }
    taken = medians(contenders, ROUNDS[size])
    ratio, noise = taken["ours"] / taken["torch"], taken["again"] / taken["torch"]
    return {"ratio": round(ratio, 3), "noise": round(noise, 3), "torch_ms": round(taken["torch"] * 1e3, 4)}


def main():
    torch.set_num_threads(1)
    found = {}
    for direction, backward in (("forward", False), ("forward and backward", True)):
        for size, (batch, n, width) in SIZES.items():
            for mask, (ours, theirs) in options(n).items():
                row = ratios(size, ours, theirs, backward)
                limit = LIMITS[mask].get(n)
                found.setdefault(direction, {}).setdefault(size, {})[mask] = row | {"limit": limit}
                held = verdict(limit, limit is None or row["ratio"] <= limit)
                print(f"{direction}, b={batch} n={n} d={width}, {mask}: {row} {held}", flush=True)
    setting = {"heads": HEADS, "sizes": SIZES, "threads": 1, "dtype": "float32", "rounds": ROUNDS}
    save("nn_attention", {"setting": setting, "over_torch": found}, note="medians of turns in one process, one run")


if __name__ == "__main__":
    main()
