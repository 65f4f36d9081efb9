"""The two passes as one function that torch can differentiate."""

import torch

from mha import masks, shapes
from mha.kernels.limits import check_tensors, lack
from mha.kernels.runtime import check_device
from mha.kernels.teaching.backward import backward
from mha.kernels.teaching.forward import forward

WIDTHS = (16, 32, 64, 128)


def attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b h j d']",
    v: "Float[Tensor, '*b h j d']",
    *,
    mask=None,
    scale=None,
) -> "Float[Tensor, '*b h i d']":
    """Mix the values of the visible keys, tile by tile.

    `mask` is None or `masks.causal`; what is hidden must be finite. A query that sees no key gets 0. The dtype is
    float16, bfloat16 or float32. There is a first derivative. The method is FlashAttention-2 (Dao, 2024).
    """
    check_tensors(q=q, k=k, v=v)
    call = shapes.check(q, k, v, mask=mask, scale=scale)
    error = lack(q, k, v)
    if error is not None:
        raise error
    check_device(q=q, k=k, v=v)
    for name, x in (("k", k), ("v", v)):
        shapes.check_shape(name, x, (*q.shape[:-2], k.shape[-2], q.shape[-1]))
    if q.shape[-1] not in WIDTHS:
        raise ValueError(f"q has width {q.shape[-1]}: expected one of {WIDTHS}; mha.kernels.attention takes the others")
    if mask is not None and mask is not masks.causal:
        raise ValueError("mask is not masks.causal: expected that or None; mha.kernels.attention takes the others")
    return Attention.apply(*(x.contiguous() for x in (q, k, v)), mask is not None, call.scale)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        with torch.cuda.device_of(q):  # Triton launches on the current device
            out, lse = forward(q, k, v, causal=causal, scale=scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = {"causal": causal, "scale": scale}
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out):
        return *backward(*ctx.saved_tensors, d_out.contiguous(), **ctx.options), None, None
