"""What does our layer cost over its own projections around torch's attention, and over torch's layer?

    python benchmarks/layer.py

Forward alone and with the backward pass; and forward with the weights of each head, which ours keeps by `capture`.
"""

import torch
import torch.nn.functional as F
from provenance import save
from turns import grad_of, medians, verdict

from mha import masks, nn
from mha.analysis import capture

HEADS, D_MODEL = 8, 512
SIZES = {"small": (1, 64), "medium": (1, 256), "batch": (8, 64), "long": (1, 1024)}
ROUNDS = {"small": 301, "medium": 101, "batch": 51, "long": 15}
OVER_PROJECTIONS = {64: 1.15, 256: 1.05, 1024: 1.02}  # by length, as for the function alone
OVER_LAYER, SHORT, MOST_SECONDS = 1.05, 512, 100e-6  # for fewer than SHORT rows without gradients: this much more


def around(layer, x, causal):
    """Return the output of the same projections around torch's attention."""
    batch, n, _ = x.shape
    q, k, v = (p(x).view(batch, n, HEADS, -1).transpose(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return layer.out_proj(out.transpose(1, 2).reshape(batch, n, D_MODEL))


def with_weights(layer, x):
    """Return the output and the weights of each head, from one pass."""
    with capture(layer) as calls:
        out = layer(x)
    return out, calls[layer].weights


def contenders(x, d_out, what):
    """Return what to time: our layer, its projections around torch's attention, and torch's layer."""
    torch.manual_seed(0)
    ours = nn.MultiHeadAttention(D_MODEL, HEADS).eval()
    theirs = ours.to_torch().eval()
    hide = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    if what == "weights":
        return {
            "ours": grad_of(lambda: with_weights(ours, x), [x], None),
            "layer": grad_of(lambda: theirs(x, x, x, average_attn_weights=False), [x], None),
        }
    causal = what == "causal"
    mask = {"attn_mask": hide, "is_causal": True} if causal else {}
    parts = [[x, *layer.parameters()] for layer in (ours, theirs)]
    return {
        "ours": grad_of(lambda: ours(x, mask=masks.causal if causal else None), parts[0], d_out),
        "projections": grad_of(lambda: around(ours, x, causal), parts[0], d_out),
        "layer": grad_of(lambda: theirs(x, x, x, need_weights=False, **mask)[0], parts[1], d_out),
    }


def compare(size, what, backward):
    """Return the ratios to both, the difference to torch's layer, and whether the limits hold."""
    batch, n = SIZES[size]
    make = torch.Generator().manual_seed(0)
    x = torch.randn(batch, n, D_MODEL, generator=make).requires_grad_(backward)
    d_out = torch.randn(batch, n, D_MODEL, generator=make) if backward else None
    taken = medians(contenders(x, d_out, what), ROUNDS[size])
    ours, layer = taken["ours"], taken["layer"]
    row = {"over_layer": round(ours / layer, 3), "more_us": round((ours - layer) * 1e6), "ms": round(ours * 1e3, 4)}
    lenient = batch * n < SHORT and not backward
    row["layer_holds"] = ours / layer <= OVER_LAYER or (lenient and ours - layer <= MOST_SECONDS)
    if "projections" in taken:
        row["over_projections"] = round(ours / taken["projections"], 3)
        row["projections_hold"] = row["over_projections"] <= OVER_PROJECTIONS[n]
    return row


def main():
    torch.set_num_threads(1)
    found = {}
    for what, backward in (("none", False), ("causal", False), ("none", True), ("causal", True), ("weights", False)):
        direction = "forward and backward" if backward else "forward"
        for size, (batch, n) in SIZES.items():
            row = compare(size, what, backward)
            found.setdefault(f"{direction}, {what}", {})[size] = row
            limits = [verdict(OVER_LAYER, row["layer_holds"])]
            if "projections_hold" in row:
                limits.append(verdict(OVER_PROJECTIONS[n], row["projections_hold"]))
            print(f"{direction}, {what}, b={batch} n={n}: {row} {'; '.join(limits)}", flush=True)
    setting = {"heads": HEADS, "d_model": D_MODEL, "sizes": SIZES, "threads": 1, "dtype": "float32", "rounds": ROUNDS}
    save("layer", {"setting": setting, "times": found}, note="medians of turns in one process, one run")


if __name__ == "__main__":
    main()
