"""Attention as plain tensor formulas: every option, every derivative and transform, n² memory."""

import functools
import math

import torch

from mha.nn.modes import readable

__all__ = ["alike", "mix", "scores", "softmax", "weights"]


def wide(x):
    """Return `x` in the precision of logits and softmax: float32, or float64 if it has that."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def alike(*tensors):
    """Return the tensors in the dtype that holds them all."""
    dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors))
    return tuple(x.to(dtype) for x in tensors)


def by_group(x, num_groups):
    """Stack the query heads of one key head on each other's rows: (…, g·r, i, c) -> (…, g, r·i, c)."""
    *batch, num_heads, n, width = x.shape
    return x if num_heads == num_groups else x.reshape(*batch, num_groups, num_heads // num_groups * n, width)


def by_head(x, num_heads):
    """Undo `by_group`."""
    *batch, num_groups, n, width = x.shape
    return x if num_heads == num_groups else x.reshape(*batch, num_heads, n * num_groups // num_heads, width)


def scores(q, k, see, *, bias=None, scale, softcap=None):
    """Return scale · q·k, capped, biased, and −inf where `see` is False."""
    s = by_head(by_group(wide(q) * scale, k.shape[-3]) @ wide(k).mT, q.shape[-3])
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    return s if see is None else torch.where(see, s, -math.inf)


def softmax(s, sinks=None):
    """Normalise e^s over the keys, with the sink's term in the denominator; a row of −inf gives zeros."""
    if sinks is not None:
        return _softmax_with(wide(sinks)[:, None, None], s)
    empty = _empty_rows(s)
    if empty is None:
        return torch.softmax(s, -1)
    return torch.softmax(s.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)


def _softmax_with(sinks, s):
    top = torch.maximum(row_max(s.detach()), sinks.detach())
    top = top.masked_fill(top == -math.inf, 0.0)
    e = (s - top).exp()
    total = e.sum(-1, keepdim=True) + (sinks - top).exp()
    return e / total.masked_fill(total == 0, 1.0)


def _empty_rows(s):
    """Tell which rows are −inf throughout; None where a look at the numbers is cheap and finds no such row."""
    look = s.is_cpu and readable(s)
    if look and not (s[..., :1] == -math.inf).any():
        return None
    empty = row_max(s.detach()) == -math.inf
    return None if look and not empty.any() else empty


def row_max(s):
    """Return the largest score of each row, −inf where there is no key at all."""
    return s.amax(-1, keepdim=True) if s.shape[-1] else s.new_full((*s.shape[:-1], 1), -math.inf)


def weights(q, k, see, *, bias=None, scale, softcap=None, sinks=None):
    """Return the softmax over the visible keys."""
    return softmax(scores(q, k, see, bias=bias, scale=scale, softcap=softcap), sinks)


def mix(p, v):
    """Average the values with the weights, query heads reading their group's values."""
    v = wide(v)
    return by_head(by_group(p.to(v.dtype), v.shape[-3]) @ v, p.shape[-3])
