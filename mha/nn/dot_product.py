"""Scaled dot-product attention on torch tensors: the arguments and the meaning of `mha.reference`.

A mask and a scale run in one fused operator; bias, softcap, sinks and dropout are plain tensor formulas. Either way
logits and softmax have at least float32, and the result has the dtype of the inputs, autocast or not. Any derivative
exists in eager mode on a CPU; beyond the first, nothing is promised under `torch.compile` or on other devices.
A graph of one piece takes masks made outside of it and, with gradients, one `scale`; `torch.vmap` runs over all
tensors but the numbers of `masks.lengths` and `q_start`, which are read.
"""

import torch
import torch.nn.functional as F

from mha import shapes
from mha.nn import checks, formula, visible_infinities
from mha.nn import dropout as dropping
from mha.nn.fused import fused
from mha.nn.hidden import Selected, finite, select
from mha.nn.modes import own_precision, traced, transformed
from mha.nn.shortcut import usual_call
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
    """Mix the values of the visible keys, weighted by a softmax of scale · q·k.   Book: {eq}`scaled-dot-product`

    Hidden keys may hold anything. A NaN or an infinity that a query sees acts on its row alone, as in the reference;
    under `torch.compile` and `torch.func` a mask that shows one makes the whole row NaN.
    """
    if bias is scale is softcap is sinks is q_start is dropout is None:
        out = usual_call(q, k, v, mask)
        if out is not None:
            return out
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
        given = Selected(q, k, None) if see is None else select(q, k, None, see)
        s, poison = scores(call, given, see, bias)
        p = formula.softmax(s, sinks).to(q.dtype)
    return p if poison is None else p + poison


def scores(call, given, see, bias):
    """Return the scores of what `select` gave, and what to add to the rows that they make (None if nothing)."""
    options = {"bias": bias, "scale": call.scale, "softcap": call.softcap}
    if given.spoiled:
        return visible_infinities.scores(given.q, given.k, see, **options)
    return formula.scores(given.q, given.k, see, **options), given.poison


def _composed(call, q, k, v, bias, sinks):
    see = visible(call, q.device, bias)
    given = Selected(q, k, v) if see is None else select(q, k, v, see)
    s, poison = scores(call, given, see, bias)
    p = formula.softmax(s, sinks)
    if call.dropout is not None:
        p = p * dropping.factors(call.dropout, torch.Size(call.weights_shape), p.device, p.dtype)
    out = visible_infinities.mix(p, given.v, s) if given.spoiled else formula.mix(p, given.v)
    out = out.to(v.dtype)
    return out if poison is None else out + poison


def _fused(call, q, k, v):
    causal, see, given = is_triangle(call), None, Selected(q, k, v)
    if causal and not traced(k, v) and not finite(k, v):
        causal = False  # the operator multiplies hidden values by zero, and 0 · NaN is NaN
    if not causal:
        see = visible(call, q.device)
    if see is not None:
        given = select(q, k, v, see)
    if given.spoiled:
        return _composed(call, q, k, v, None, None)
    out = _on_four_axes(call, given.q, given.k, given.v, see, causal)
    return out if given.poison is None else out + given.poison


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
