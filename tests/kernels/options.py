"""Every option of a call and the values that it takes in the tests; a row picks one of each and becomes a `Call`."""

import math

import numpy as np
import torch

from kernels.calls import Call, laid_out, normal
from masks.every import every
from mha.dropout import Dropout
from mha.kernels import alibi
from mha.masks import query_start

# One mask for each way of a kernel to hold one: by positions alone, by numbers of samples, heads, slots and places, by
# several masks together.
MASKS = "none", "causal", "lengths", "segments", "global_tokens", "per_head", "dense", "in_blocks", "longformer"
OTHER_MASKS = sorted(set(every(7, 13, 2, 4)) - set(MASKS))
SMALL = {"n_q": 33, "n_k": 65, "width": 16, "value width": 17, "batch": 2}  # two tiles of keys

# Tiles of queries have 128 rows (64 or 32 where rows are wide), tiles of keys 64 (32).
FACTORS = {
    "dtype": [torch.float16, torch.bfloat16, torch.float32],
    "n_q": [0, 1, 7, 33, 129],
    "n_k": [0, 1, 13, 63, 65],
    "width": [16, 30, 40, 63, 64, 96, 128, 256],
    "value width": ["same", 17, 72],
    "heads": [(1, 1), (2, 2), (3, 1), (4, 2)],
    "batch": [1, 2],
    "mask": MASKS,
    "bias": ["none", "whole", "of positions", "of heads and keys", "of samples", "rule"],
    "scale": [None, 0.3],
    "softcap": [None, 1.5],
    "sinks": [False, True],
    "dropout": [None, 0.3],
    "q_start": [None, -3, "of samples"],
    "layout": ["contiguous", "positions first", "transposed", "every other", "one sample", "one head", "fused"],
    "d_out": ["contiguous", "positions first", "one row"],
    "stats": [False, True],
}
BIAS_AXES = {"whole": "bhij", "of positions": "ij", "of heads and keys": "hj", "of samples": "b"}


def call_of(row, seed):
    """Return the call of a row, its numbers drawn from the seed."""
    rng = np.random.default_rng(seed)
    (heads, groups), dtype, batch = row["heads"], row["dtype"], row["batch"]
    n_q, n_k, width = row["n_q"], row["n_k"], row["width"]
    value_width = width if row["value width"] == "same" else row["value width"]
    shapes = (batch, heads, n_q, width), (batch, groups, n_k, width), (batch, groups, n_k, value_width)
    q, k, v = laid_out(row["layout"], *(normal(rng, *shape).to(dtype) for shape in shapes))
    (d_out,) = laid_out(row["d_out"], normal(rng, batch, heads, n_q, value_width).to(dtype))
    call = Call(q, k, v, d_out, scale=row["scale"], softcap=row["softcap"])
    if row["mask"] != "none":
        call.mask = every(n_q, n_k, batch, heads)[row["mask"]]
    if row["q_start"] is not None:
        call.q_start = row["q_start"] if row["q_start"] == -3 else rng.integers(-3, 9, batch)
    if row["sinks"]:
        call.sinks = normal(rng, heads).float()
    if row["dropout"]:
        call.dropout = Dropout(row["dropout"], int(rng.integers(2**40)))
    if row["stats"]:
        call.d_lse = normal(rng, batch, heads, n_q).float()
    if row["bias"] == "rule":
        slopes = 0.5 ** torch.arange(2, heads + 2)
        call.rule, call.bias = alibi(slopes), picture_of_alibi(call, slopes)
    elif row["bias"] != "none":
        call.bias = drawn_bias(rng, call.weights_shape, BIAS_AXES[row["bias"]]).to(dtype)
    return call


def picture_of_alibi(call, slopes):
    """Return what `alibi` adds, (b, h, i, j): positions are those that the mask sees."""
    n_q, n_k = call.weights_shape[2:]
    start = np.reshape(query_start(call.mask, n_q, n_k, call.q_start), (-1, 1, 1, 1))
    distance = np.abs(start + np.arange(n_q)[:, None] - np.arange(n_k))
    return -slopes[:, None, None] * torch.from_numpy(distance)


def drawn_bias(rng, shape, axes):
    """Return a bias with these axes of b, h, i, j, the others of size 1; a tenth of it hides."""
    sizes = [size if axis in axes else 1 for axis, size in zip("bhij", shape, strict=True)]
    bias = normal(rng, *sizes)
    if len(axes) > 1:
        bias[torch.from_numpy(rng.random(sizes) < 0.1)] = -math.inf
    return bias[0, 0] if axes == "ij" else bias
