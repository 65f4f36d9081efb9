"""The fused CPU operator behind `torch`'s scaled dot-product attention, with all of its derivatives.

Torch's own wrapper has neither a second derivative nor a forward mode on a CPU: here the first derivative
is the fused one, and whatever asks for more meets the plain formulas.
"""

import torch
import torch.nn.functional as F

from mha.nn import formula
from mha.nn.modes import transformed

__all__ = ["backward_op", "forward_op", "fused", "plain_backward", "unit_stride"]

forward_op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
backward_op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def fused(q, k, v, see, causal, scale):
    """Mix the values of the visible keys; (b, h, n, d) tensors of one width, none of them empty.

    `see` broadcasts to (b, h, i, j) or is None; `causal` is for as many queries as keys, and wants finite keys where
    there is a gradient: a key of score −inf weighs 0, and in the backward pass 0 · inf is NaN.
    """
    q, k, v = unit_stride(q, k, v)
    if not q.is_cpu:
        return _elsewhere(q, k, v, see, causal, scale)
    bias = None if see is None else 1 - see.to(q.dtype).reciprocal()  # 0 or −inf, in vector registers
    if torch.compiler.is_compiling():
        return _Fused.apply(q, k, v, bias, causal, scale)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _apply(q, k, v, bias, causal, scale)
    if bias is not None:
        return forward_op(q, k, v, 0.0, False, attn_mask=bias, scale=scale)[0]
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def _elsewhere(q, k, v, see, causal, scale):
    """Run on another device, where rows that see nothing differ: let them see all, then zero them."""
    if see is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    empty = ~see.any(-1, keepdim=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=see | empty, scale=scale).masked_fill(empty, 0.0)


def unit_stride(q, k, v):
    """Return the tensors with rows that lie in one piece: the operator takes it for granted and reads other memory."""
    if q.stride(-1) == k.stride(-1) == v.stride(-1) == 1:
        return q, k, v
    return tuple(x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))


class _Fused(torch.autograd.Function):  # no jvp: Dynamo refuses a Function that has one
    @staticmethod
    def forward(ctx, q, k, v, bias, causal, scale):
        out, lse = forward_op(q, k, v, 0.0, causal, attn_mask=bias, scale=scale)
        ctx.save_for_backward(q, k, v, bias, out, lse)
        ctx.rest = causal, scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        (q, k, v, bias, out, lse), (causal, scale) = ctx.saved_tensors, ctx.rest
        if torch.is_grad_enabled() or transformed(d_out):
            return *plain_backward(q, k, v, _see(q, k, bias, causal), scale, d_out), None, None, None
        gradients = backward_op(d_out, q, k, v, out, lse, 0.0, causal, attn_mask=bias, scale=scale)
        return *gradients, None, None, None


def _apply(*arguments):
    """Apply without a look for transforms: they meet plain formulas before."""
    return super(torch.autograd.Function, _Fused).apply(*arguments)


def _see(q, k, bias, causal):
    if causal:
        return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return None if bias is None else bias == 0


def plain_backward(q, k, v, see, scale, d_out):
    """Return the gradients of q, k and v by formulas that can be differentiated again; k and v may have one head."""
    p = formula.weights(q, k, see, scale=scale)
    dtype, num_kv_heads = q.dtype, k.shape[1]
    q, k, v, d_out = (formula.wide(x) for x in (q, k, v, d_out))
    k = k.where(k.isfinite(), 0.0)
    d_p = d_out @ v.mT
    d_s = p * (d_p - (p * d_p).sum(-1, keepdim=True))
    d_k, d_v = d_s.mT @ (q * scale), p.mT @ d_out
    if num_kv_heads != q.shape[1]:
        d_k, d_v = (x.sum(1, keepdim=True) for x in (d_k, d_v))
    return tuple(x.to(dtype) for x in ((d_s @ k) * scale, d_k, d_v))
