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
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias.to(s.dtype)
        see = see & (bias > -math.inf)
    s = s.masked_fill(~see, -math.inf)
    p, lse = weights(s, sinks)
    out = (p if factors is None else p * factors.to(p.dtype)) @ v
    shares, lse_of_keys = weights(s, None)
    entropy = -(shares * (s - lse_of_keys[..., None]).masked_fill(~see, 0.0)).sum(-1)
    max_logit = s.amax(-1) if s.shape[-1] else s.new_full(s.shape[:-1], -math.inf)
    return Result(out, lse, max_logit.detach(), entropy.detach())


def weights(s, sinks):
    """Return the softmax of the scores, sinks in the denominator, and its logarithm; a row of nothing gives 0, −inf."""
    columns = s.shape[-1]
    if sinks is not None:
        s = torch.cat([s, sinks.to(s.dtype)[:, None, None].expand(*s.shape[:-1], 1)], dim=-1)
    hidden = s == -math.inf
    nothing = hidden.all(-1, keepdim=True)
    s = s.masked_fill(nothing, 0.0)  # a softmax of −inf alone is NaN, and so is its gradient
    p = torch.softmax(s, -1).masked_fill(hidden, 0.0)
    if not s.shape[-1]:
        return p, s.sum(-1) - math.inf
    return p[..., :columns], torch.logsumexp(s, -1).masked_fill(nothing[..., 0], -math.inf)
