"""The fused CPU operator behind `torch`'s scaled dot-product attention, with all of its derivatives.

Torch's own wrapper has neither a second derivative nor a forward mode on a CPU: here the first derivative
is the fused one, and whatever asks for more meets the plain formulas.
"""

import math

import torch
import torch.nn.functional as F

from mha.nn import formula
from mha.nn.modes import transformed

__all__ = ["fused"]

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def fused(q, k, v, see, causal, scale):
    """Mix the values of the visible keys; (b, h, n, d) tensors of one width, none of them empty.

    `see` broadcasts to (b, h, i, j) or is None; `causal` is for as many queries as keys.
    """
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))  # else the operator reads other memory
    needs_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if q.device.type == "cpu" and (needs_gradient or torch.compiler.is_compiling()):
        return _Fused.apply(q, k, v, see, causal, scale)
    if see is None or q.device.type == "cpu":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=see, is_causal=causal, scale=scale)
    empty = ~see.any(
        -1, keepdim=True
    )  # other devices differ on rows that see nothing: let them see all, then zero them
    return F.scaled_dot_product_attention(q, k, v, attn_mask=see | empty, scale=scale).masked_fill(empty, 0.0)


class _Fused(torch.autograd.Function):  # no jvp: Dynamo refuses a Function that has one
    @staticmethod
    def forward(ctx, q, k, v, see, causal, scale):
        bias = None if see is None else torch.zeros((), dtype=q.dtype).masked_fill(~see, -math.inf)
        out, lse = _forward(q, k, v, 0.0, causal, attn_mask=bias, scale=scale)
        ctx.save_for_backward(q, k, v, see, bias, out, lse)
        ctx.rest = causal, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        (q, k, v, see, bias, out, lse), (causal, scale) = ctx.saved_tensors, ctx.rest
        if torch.is_grad_enabled() or transformed(d_out):
            return *_plain_backward(q, k, v, see, causal, scale, d_out), None, None, None
        gradients = _backward(d_out, q, k, v, out, lse, 0.0, causal, attn_mask=bias, scale=scale)
        return *gradients, None, None, None


def _plain_backward(q, k, v, see, causal, scale, d_out):
    if causal:
        see = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    p = formula.weights(q, k, see, scale=scale)
    dtype = q.dtype
    q, k, v, d_out = (formula.wide(x) for x in (q, k, v, d_out))
    d_p = d_out @ v.mT
    d_s = p * (d_p - (p * d_p).sum(-1, keepdim=True))
    return tuple(x.to(dtype) for x in ((d_s @ k) * scale, d_s.mT @ (q * scale), p.mT @ d_out))
