"""Attention as a few lines of torch, in whatever precision its arguments have: the yardstick of the kernels.

In float64 it is the exact answer, gradients by autograd (judge.py holds it against `mha.reference`); in the dtype of
the kernel it is what anybody would write, and its error says how much error is fair.
"""

import math
from typing import NamedTuple

import torch


class Result(NamedTuple):
    """The output and the statistics of its rows."""

    out: torch.Tensor
    lse: torch.Tensor
    max_logit: torch.Tensor
    entropy: torch.Tensor


def attend(q, k, v, *, see, bias=None, scale=None, softcap=None, sinks=None, factors=None):
    """Return the Result. `see` (b, h, i, j) is True where a query sees a key, `factors` multiplies the weights."""
    s, _ = scores(q, repeated(k, q), see, bias, scale, softcap)
    n_k, (p, lse) = s.shape[-1], softmax(s, sinks)
    p = p[..., :n_k]
    out = (p if factors is None else p * factors.to(p.dtype)) @ repeated(v, q)
    shares, lse_of_keys = softmax(s, None)
    entropy = -(shares * (s - lse_of_keys[..., None]).masked_fill(s == -math.inf, 0.0)).sum(-1)
    max_logit = s.amax(-1) if n_k else s.new_full(s.shape[:-1], -math.inf)
    return Result(out, lse, max_logit.detach(), entropy.detach())


def backward(q, k, v, out, d_out, d_lse, *, see, bias=None, scale=None, softcap=None, sinks=None, factors=None):
    """Return the gradients by name, in the form that kernels use: Σ p dp of a row is d_out · out.

    Autograd sums p dp itself. The two forms round differently where dp and its mean cancel.
    """
    keys, values = repeated(k, q), repeated(v, q)
    s, slope = scores(q, keys, see, bias, scale, softcap)
    weights, _ = softmax(s, sinks)
    p, f = weights[..., : s.shape[-1]], 1.0 if factors is None else factors.to(q.dtype)
    mean = (d_out * out).sum(-1, keepdim=True) - (0.0 if d_lse is None else d_lse.to(q.dtype)[..., None])
    d_s = p * (d_out @ values.mT * f - mean)
    d_dots = d_s * slope
    found = {
        "d_q": d_dots @ keys,
        "d_k": of_groups(d_dots.mT @ q, k),
        "d_v": of_groups((p * f).mT @ d_out, v),
    }
    if bias is not None:
        found["d_bias"] = d_s.sum_to_size(bias.shape)
    if sinks is not None:
        found["d_sinks"] = -(weights[..., -1:] * mean).sum((0, 2, 3))
    return found


def scores(q, keys, see, bias, scale, softcap):
    """Return the scores, −inf where hidden, and the derivative of the score before the bias by q·k."""
    slope = q.shape[-1] ** -0.5 if scale is None else scale
    s = q @ keys.mT * slope
    if softcap is not None:
        tanh = torch.tanh(s / softcap)
        s, slope = softcap * tanh, slope * (1 - tanh * tanh)
    if bias is not None:
        s, see = s + bias.to(s.dtype), see & (bias > -math.inf)
    return s.masked_fill(~see, -math.inf), slope


def softmax(s, sinks):
    """Return the weights, those of the sinks last, and the log of their denominator; a row of nothing gives 0, −inf."""
    if sinks is not None:
        s = torch.cat([s, sinks.to(s.dtype)[:, None, None].expand(*s.shape[:-1], 1)], dim=-1)
    if not s.shape[-1]:
        return s, s.sum(-1) - math.inf
    hidden = s == -math.inf
    nothing = hidden.all(-1, keepdim=True)
    s = s.masked_fill(nothing, 0.0)  # a softmax of −inf alone is NaN, and so is its gradient
    return torch.softmax(s, -1).masked_fill(hidden, 0.0), torch.logsumexp(s, -1).masked_fill(nothing[..., 0], -math.inf)


def repeated(x, q):
    """Give each query head its own copy of the key head that it reads."""
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def of_groups(x, like):
    """Add up what the query heads of a group give to their key head."""
    return x.unflatten(1, (like.shape[1], -1)).sum(2)
