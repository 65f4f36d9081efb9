"""The gradients of attention: every tile of weights is made again from the lse of its rows.

Two kernels, so that each number is written by one program alone: the sums have one order, and two runs the same bits.
"""

import torch
import triton
import triton.language as tl

from mha.kernels.teaching.forward import BM, BN, finite, load_rows, store_rows, tile_of_scores


@triton.jit
def load_numbers(start, rows, count):
    return tl.load(start + rows, mask=rows < count, other=0.0)  # [rows]


@triton.jit
def weights_again(q, k, lse, rows, keys, n_q, n_k, scale, CAUSAL: tl.constexpr):
    """Make a tile of weights from its scores and the log-sum-exp of its rows."""
    scores = tile_of_scores(q, k, rows, keys, n_q, n_k, scale, CAUSAL)  # [BM, BN]
    return tl.exp(scores - finite(lse)[:, None])  # [BM, BN]


@triton.jit
def gradient_of_scores(weights, d_out, v, delta):
    """Send the gradient of the output back to the scores; delta is the mean of each row."""
    d_weights = tl.dot(d_out, tl.trans(v), input_precision="ieee")  # [BM, BN]
    return (weights * (d_weights - delta[:, None])).to(v.dtype)  # [BM, BN]


@triton.jit
def dkdv_kernel(
    q, k, v, d_out, lse, delta, dk, dv, n_q, n_k, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One program: BN keys of one head, against every query that sees them."""
    tiles = tl.cdiv(n_k, BN)
    head, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    q, d_out = q + head * n_q * D, d_out + head * n_q * D
    lse, delta = lse + head * n_q, delta + head * n_q
    k, v = k + head * n_k * D, v + head * n_k * D
    dk, dv = dk + head * n_k * D, dv + head * n_k * D

    keys = tile * BN + tl.arange(0, BN)  # [BN]
    k_tile = load_rows(k, keys, n_k, D)  # [BN, D]
    v_tile = load_rows(v, keys, n_k, D)  # [BN, D]
    dk_tile = tl.zeros([BN, D], tl.float32)  # [BN, D]
    dv_tile = tl.zeros([BN, D], tl.float32)  # [BN, D]

    start = tl.maximum(0, tile * BN - (n_k - n_q)) // BM * BM if CAUSAL else 0
    for first in range(start, n_q, BM):
        rows = first + tl.arange(0, BM)  # [BM]
        q_tile = load_rows(q, rows, n_q, D)  # [BM, D]
        d_tile = load_rows(d_out, rows, n_q, D)  # [BM, D]
        lse_tile = load_numbers(lse, rows, n_q)  # [BM]
        delta_tile = load_numbers(delta, rows, n_q)  # [BM]
        weights = weights_again(q_tile, k_tile, lse_tile, rows, keys, n_q, n_k, scale, CAUSAL)
        d_scores = gradient_of_scores(weights, d_tile, v_tile, delta_tile)  # [BM, BN]
        weights = weights.to(d_tile.dtype)  # [BM, BN]
        dv_tile += tl.dot(tl.trans(weights), d_tile, input_precision="ieee")
        dk_tile += tl.dot(tl.trans(d_scores), q_tile, input_precision="ieee")

    store_rows(dk, keys, n_k, dk_tile * scale, D)
    store_rows(dv, keys, n_k, dv_tile, D)


@triton.jit
def dq_kernel(
    q, k, v, d_out, lse, delta, dq, n_q, n_k, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One program: BM queries of one head, against every key that they see."""
    tiles = tl.cdiv(n_q, BM)
    head, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    q, d_out, dq = q + head * n_q * D, d_out + head * n_q * D, dq + head * n_q * D
    lse, delta = lse + head * n_q, delta + head * n_q
    k, v = k + head * n_k * D, v + head * n_k * D

    rows = tile * BM + tl.arange(0, BM)  # [BM]
    q_tile = load_rows(q, rows, n_q, D)  # [BM, D]
    d_tile = load_rows(d_out, rows, n_q, D)  # [BM, D]
    lse_tile = load_numbers(lse, rows, n_q)  # [BM]
    delta_tile = load_numbers(delta, rows, n_q)  # [BM]
    dq_tile = tl.zeros([BM, D], tl.float32)  # [BM, D]

    end = tl.minimum(n_k, (tile + 1) * BM + n_k - n_q) if CAUSAL else n_k
    for first in range(0, end, BN):
        keys = first + tl.arange(0, BN)  # [BN]
        k_tile = load_rows(k, keys, n_k, D)  # [BN, D]
        v_tile = load_rows(v, keys, n_k, D)  # [BN, D]
        weights = weights_again(q_tile, k_tile, lse_tile, rows, keys, n_q, n_k, scale, CAUSAL)
        d_scores = gradient_of_scores(weights, d_tile, v_tile, delta_tile)  # [BM, BN]
        dq_tile += tl.dot(d_scores, k_tile, input_precision="ieee")

    store_rows(dq, rows, n_q, dq_tile * scale, D)


def backward(q, k, v, out, lse, d_out, *, causal, scale):
    """Return the gradients of q, k and v. `out` and `lse` are what `forward` gave; all tensors are contiguous."""
    n_q, n_k, D = q.shape[-2], k.shape[-2], q.shape[-1]
    delta = (out.float() * d_out.float()).sum(-1)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    heads, shared = q.shape[:-2].numel(), (q, k, v, d_out, lse, delta)
    options = {"D": D, "BM": BM, "BN": BN, "CAUSAL": causal, "enable_fp_fusion": True}
    if programs := heads * triton.cdiv(n_k, BN):
        dkdv_kernel[(programs,)](*shared, dk, dv, n_q, n_k, scale, **options)
    if programs := heads * triton.cdiv(n_q, BM):
        dq_kernel[(programs,)](*shared, dq, n_q, n_k, scale, **options)
    return dq, dk, dv
