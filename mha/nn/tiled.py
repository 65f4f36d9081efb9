"""Attention with a sparse mask: one call of the fused operator for each tile of queries, over the keys that it sees.

The tiles that the mask leaves out cost neither time nor memory. The first derivative goes tile by tile too; whatever
asks for more meets the plain formulas.
"""

import math

import torch

from mha.nn.fused import backward_op, forward_op, plain_backward, unit_stride
from mha.nn.modes import batched, transformed

__all__ = ["only_seen", "tiled"]


def tiled(q, k, v, steps, scale, see):
    """Mix the values of the visible keys, step by step; q, k and v folded. `see()` gives the visible pairs, folded."""
    q, k, v = unit_stride(q, k, v)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _Tiled.apply(q, k, v, steps, scale, see)
    return _forward(q, k, v, steps, scale)[0]


def only_seen(q, k, v, steps):
    """Return q, k, v with zeros in the queries that see nothing and in the keys that nobody sees."""
    sees, seen = (torch.zeros(x.shape[:3], dtype=torch.bool, device=x.device) for x in (q, k))
    for step in steps:
        rows, keys = _of_queries(step, sees), _of_keys(step, seen)
        shown = torch.ones((), dtype=torch.bool) if step.bias is None else step.bias == 0
        sees[rows] |= shown.any(-1) if shown.ndim else shown
        seen[keys] |= shown.any(-2) if shown.ndim else shown
    return torch.where(sees[..., None], q, 0.0), *(torch.where(seen[..., None], x, 0.0) for x in (k, v))


def _of_queries(step, x):
    return step.samples, step.heads, step.rows


def _of_keys(step, x):
    return step.samples, slice(None) if x.shape[1] == 1 else step.heads, step.keys


def _forward(q, k, v, steps, scale):
    out = torch.zeros_like(q)
    lse = q.new_full(q.shape[:3], -math.inf, dtype=torch.promote_types(q.dtype, torch.float32))
    for step in steps:
        rows, keys = _of_queries(step, q), _of_keys(step, k)
        q_, k_, v_ = q[rows], k[keys], v[keys]
        k_, v_ = (x.expand(-1, q_.shape[1], -1, -1) for x in (k_, v_))
        out[rows], lse[rows] = forward_op(q_, k_, v_, 0.0, False, attn_mask=step.bias, scale=scale)
    return out, lse


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, steps, scale, see):
        out, lse = _forward(q, k, v, steps, scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.rest = steps, scale, see
        return out

    @staticmethod
    def backward(ctx, d_out):
        (q, k, v, out, lse), (steps, scale, see) = ctx.saved_tensors, ctx.rest
        if torch.is_grad_enabled() or transformed(d_out) or batched(d_out):
            return *plain_backward(q, k, v, see(), scale, d_out), None, None, None
        d_q = torch.zeros_like(q)
        wide = torch.promote_types(q.dtype, torch.float32)  # many tiles add to one key
        d_k, d_v = (torch.zeros_like(x, dtype=wide) for x in (k, v))
        for step in steps:
            rows, keys = _of_queries(step, q), _of_keys(step, k)
            q_, k_, v_, out_, lse_ = q[rows], k[keys], v[keys], out[rows], lse[rows]
            k_, v_ = (x.expand(-1, q_.shape[1], -1, -1) for x in (k_, v_))
            d_q[rows], *found = backward_op(
                d_out[rows], q_, k_, v_, out_, lse_, 0.0, False, attn_mask=step.bias, scale=scale
            )
            for total, part in zip((d_k, d_v), found, strict=True):
                total[keys] += part if k.shape[1] == q.shape[1] else part.to(wide).sum(1, keepdim=True)
        return d_q, d_k.to(k.dtype), d_v.to(v.dtype), None, None, None
