"""Scaled dot-product attention on torch tensors: the arguments and the meaning of `mha.reference`.

A mask and a scale run in one fused operator; bias, softcap, sinks and dropout are plain tensor formulas. Either way
logits and softmax have at least float32, and the result has the dtype of the inputs, autocast or not. Any derivative
exists in eager mode on a CPU; beyond the first, nothing is promised under `torch.compile` or on other devices.
A graph of one piece takes masks made outside of it and, with gradients, one `scale`; `torch.vmap` runs over all
tensors but the numbers of `masks.lengths` and `q_start`, which are read.
"""

import torch

from mha import shapes
from mha.nn import checks, formula, visible_infinities
from mha.nn import dropout as dropping
from mha.nn.four_axes import fold, fold_pairs, unfold
from mha.nn.fused import fused
from mha.nn.hidden import Selected, harmless, select
from mha.nn.modes import own_precision, readable, traced, transformed
from mha.nn.shortcut import SHORTEST, usual_call
from mha.nn.tile_plan import find_plan
from mha.nn.tiled import only_seen, tiled
from mha.nn.visible import is_triangle, only_hides, visible, with_bias
from mha.options import hinted

__all__ = ["attention", "attention_weights"]


@hinted
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
    if bias is not None and softcap is sinks is dropout is None and q.dtype.itemsize < 4 and only_hides(bias):
        mask = with_bias(mask, bias, call.n_q, call.n_k)  # the same bits as the mask, not the same up to rounding
        return attention(q, k, v, mask=mask, scale=scale, q_start=q_start)
    if not q.dtype == k.dtype == v.dtype:
        q, k, v = formula.alike(q, k, v)
    empty = 0 in (q.numel(), k.numel(), v.numel())  # the fused operator divides by the lengths
    extra = call.dropout is not None or any(x is not None for x in options.values())
    with own_precision(q):
        if empty or extra or transformed(q, k, v):
            return _composed(call, q, k, v, bias, sinks)
        return _fused(call, q, k, v)


@hinted
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
    look = not traced(q, k, v) and (causal or call.n_k < SHORTEST)  # in few keys a row of NaN would get lost
    if look and not harmless(q, k, v, call.scale):
        if call.mask is None:
            return _composed(call, q, k, v, None, None)
        causal = False  # the operator multiplies hidden values by zero, and 0 · NaN is NaN
    if not causal and readable(q, k, v) and q.is_cpu:
        out = _tiled(call, q, k, v)
        if out is not None:
            return out
    if not causal:
        see = visible(call, q.device)
    if see is not None:
        given = select(q, k, v, see, call.scale)
    if given.spoiled:
        return _composed(call, q, k, v, None, None)
    q, k, v = fold(call, given.q, given.k, given.v)
    k, v = (x if x.shape[1] == q.shape[1] else x.expand(-1, q.shape[1], -1, -1) for x in (k, v))
    see = None if see is None else fold_pairs(call, see)
    out = unfold(call, fused(q, k, v, see, causal, call.scale), given.v.shape[-1])
    return out if given.poison is None else out + given.poison


def _tiled(call, q, k, v):
    """Return the output by tiles, or None where that does not pay or would not be exact."""
    per_group = fold(call, q, k, v)[0].shape[1]
    plan = find_plan(call, q.dtype, per_group)
    if plan is None:
        return None
    q_, k_, v_ = fold(call, q, k, v)
    if not harmless(q_, k_, v_, call.scale):
        q_, k_, v_ = only_seen(q_, k_, v_, plan)
        if not harmless(q_, k_, v_, call.scale):
            return None
    out = tiled(q_, k_, v_, plan, call.scale, lambda: fold_pairs(call, visible(call, q.device)))
    return unfold(call, out, v.shape[-1])
