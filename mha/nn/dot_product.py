"""Scaled dot-product attention on torch tensors: the arguments and the meaning of `mha.reference`.

A mask and a scale run in one fused operator; bias, softcap, sinks and dropout are plain tensor formulas. Either way
logits and softmax have at least float32, and the result has the dtype of the inputs, autocast or not. Any derivative
exists in eager mode on a CPU; beyond the first, nothing is promised under `torch.compile` or on other devices.
"""

import torch
import torch.nn.functional as F

from mha import shapes
from mha.nn import checks, formula
from mha.nn import dropout as dropping
from mha.nn.fused import fused
from mha.nn.hidden import finite, select
from mha.nn.modes import own_precision, readable, transformed
from mha.nn.visible import is_triangle, visible

__all__ = ["attention", "attention_weights"]


def attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> "Float[Tensor, '*b h i e']":
    """Mix the values of the visible keys, weighted by a softmax of scale · q·k.   Book: {eq}`scaled-dot-product`"""
    checks.tensors(q=q, k=k, v=v)
    options = {"bias": bias, "softcap": softcap, "sinks": sinks}
    call = shapes.check(q, k, v, mask=mask, scale=scale, q_start=q_start, dropout=dropout, **options)
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = formula.alike(q, k, v)
    empty = 0 in (q.numel(), k.numel(), v.numel())  # the fused operator divides by the lengths
    extra = call.dropout is not None or any(x is not None for x in options.values())
    with own_precision(q):
        if empty or extra or transformed(q, k, v):
            return _composed(call, q, k, v, bias, sinks)
        return _fused(call, q, k, v)


def attention_weights(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
) -> "Float[Tensor, '*b h i j']":
    """Return the share of each key in each query's mixture, dropout left out.   Book: {eq}`attention-weights`"""
    checks.tensors(q=q, k=k)
    call = shapes.check(q, k, mask=mask, bias=bias, scale=scale, softcap=softcap, sinks=sinks, q_start=q_start)
    q, k = formula.alike(q, k)
    with own_precision(q):
        see = visible(call, q.device, bias)
        q, k, _, poison = (q, k, None, None) if see is None else select(q, k, None, see)
        p = formula.weights(q, k, see, bias=bias, scale=call.scale, softcap=call.softcap, sinks=sinks).to(q.dtype)
    return p if poison is None else p + poison


def _composed(call, q, k, v, bias, sinks):
    see = visible(call, q.device, bias)
    dtype = v.dtype
    q, k, v, poison = (q, k, v, None) if see is None else select(q, k, v, see)
    p = formula.weights(q, k, see, bias=bias, scale=call.scale, softcap=call.softcap, sinks=sinks)
    if call.dropout is not None:
        p = p * dropping.factors(call.dropout, torch.Size(call.weights_shape), p.device, p.dtype)
    out = formula.mix(p, v).to(dtype)
    return out if poison is None else out + poison


def _fused(call, q, k, v):
    causal, see, poison = is_triangle(call), None, None
    if causal and readable(k, v) and not finite(k, v):
        causal = False  # the operator multiplies hidden values by zero, and 0 · NaN is NaN
    if not causal:
        see = visible(call, q.device)
    if see is not None:
        q, k, v, poison = select(q, k, v, see)
    out = _on_four_axes(call, q, k, v, see, causal)
    return out if poison is None else out + poison


def _on_four_axes(call, q, k, v, see, causal):
    """Run the fused operator on what it takes: (b, h, n, d), one width, as many key heads as query heads."""
    if see is not None and see.ndim < 4:
        see = see.reshape((1,) * (4 - see.ndim) + see.shape)
    plain = q.ndim == k.ndim == v.ndim == 4
    if plain and q.shape[:2] == k.shape[:2] == v.shape[:2] and q.shape[3] == v.shape[3]:
        return fused(q, k, v, see, causal, call.scale)
    num_heads, per_group, d_value = call.num_heads, call.num_heads // call.num_kv_heads, v.shape[-1]
    width = max(q.shape[-1], d_value)
    q, k, v = (_one_batch_axis(F.pad(x, (0, width - x.shape[-1])), call.batch_shape) for x in (q, k, v))
    if see is not None and see.shape[:-3] != (1,):
        see = _one_batch_axis(see, call.batch_shape)
    if per_group > 1:  # each group becomes a sample, and its query heads share the one key head without a copy
        q = q.reshape(-1, per_group, *q.shape[-2:])
        k, v = (x.flatten(0, 1).unsqueeze(1).expand(-1, per_group, -1, -1) for x in (k, v))
        if see is not None and see.shape[:2] != (1, 1):
            see = see.expand(call.batch, num_heads, -1, -1).reshape(-1, per_group, *see.shape[-2:])
    out = fused(q, k, v, see, causal, call.scale)[..., :d_value]
    return out.reshape(*call.weights_shape[:-1], d_value)


def _one_batch_axis(x, batch_shape):
    return x.expand(*batch_shape, *x.shape[-3:]).reshape(-1, *x.shape[-3:])
