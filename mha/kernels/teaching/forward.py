"""Attention in one pass over the keys: no row of weights is ever whole."""

import torch
import triton
import triton.language as tl

BM, BN = 32, 32  # queries and keys of one tile


@triton.jit
def load_rows(start, rows, count, D: tl.constexpr):
    """Load some rows of a matrix of `count` rows; what lies beyond its end is 0."""
    pointers = start + rows[:, None] * D + tl.arange(0, D)[None, :]  # [rows, D]
    return tl.load(pointers, mask=rows[:, None] < count, other=0.0)  # [rows, D]


@triton.jit
def store_rows(start, rows, count, values, D: tl.constexpr):
    pointers = start + rows[:, None] * D + tl.arange(0, D)[None, :]  # [rows, D]
    tl.store(pointers, values.to(start.dtype.element_ty), mask=rows[:, None] < count)


@triton.jit
def tile_of_scores(q, k, rows, keys, n_q, n_k, scale, CAUSAL: tl.constexpr):
    """Score some queries against some keys; hidden pairs, and those beyond the end, get −inf."""
    scores = scale * tl.dot(q, tl.trans(k), input_precision="ieee")  # [BM, BN]
    visible = (rows[:, None] < n_q) & (keys[None, :] < n_k)  # [BM, BN]
    if CAUSAL:
        visible &= keys[None, :] <= rows[:, None] + (n_k - n_q)  # aligned at the last key
    return tl.where(visible, scores, float("-inf"))


@triton.jit
def finite(x):
    """Put 0 in place of −inf: the largest score of a row that has seen no key yet."""
    return tl.where(x == float("-inf"), 0.0, x)


@triton.jit
def forward_kernel(
    q, k, v, out, lse, n_q, n_k, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One program: BM queries of one head, against every key that they see."""
    tiles = tl.cdiv(n_q, BM)
    head, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    q, out, lse = q + head * n_q * D, out + head * n_q * D, lse + head * n_q
    k, v = k + head * n_k * D, v + head * n_k * D

    rows = tile * BM + tl.arange(0, BM)  # [BM]
    q_tile = load_rows(q, rows, n_q, D)  # [BM, D]
    top = tl.full([BM], float("-inf"), tl.float32)  # [BM] the largest score so far
    total = tl.zeros([BM], tl.float32)  # [BM] the sum of exponentials so far
    mixed = tl.zeros([BM, D], tl.float32)  # [BM, D] the values so far, weighted by them
    end = tl.minimum(n_k, (tile + 1) * BM + n_k - n_q) if CAUSAL else n_k
    for first in range(0, end, BN):
        keys = first + tl.arange(0, BN)  # [BN]
        k_tile = load_rows(k, keys, n_k, D)  # [BN, D]
        v_tile = load_rows(v, keys, n_k, D)  # [BN, D]
        scores = tile_of_scores(q_tile, k_tile, rows, keys, n_q, n_k, scale, CAUSAL)
        new_top = tl.maximum(top, tl.max(scores, 1))  # [BM]
        factor = tl.exp(top - finite(new_top))  # [BM]
        weights = tl.exp(scores - finite(new_top)[:, None])  # [BM, BN]
        total = total * factor + tl.sum(weights, 1)
        mixed = mixed * factor[:, None]
        mixed += tl.dot(weights.to(v_tile.dtype), v_tile, input_precision="ieee")
        top = new_top
    total = tl.where(total == 0, 1.0, total)
    store_rows(out, rows, n_q, mixed / total[:, None], D)
    tl.store(lse + rows, top + tl.log(total), mask=rows < n_q)


def forward(q, k, v, *, causal, scale):
    """Return the output and the log-sum-exp of each row. The tensors (…, length, D) are contiguous."""
    n_q, n_k, D = q.shape[-2], k.shape[-2], q.shape[-1]
    out, lse = torch.empty_like(q), torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    options = {"D": D, "BM": BM, "BN": BN, "CAUSAL": causal, "enable_fp_fusion": True}
    if programs := q.shape[:-2].numel() * triton.cdiv(n_q, BM):
        forward_kernel[(programs,)](q, k, v, out, lse, n_q, n_k, scale, **options)
    return out, lse
