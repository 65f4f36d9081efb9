"""What a row of logits amounts to (log-sum-exp, largest logit, entropy), a few rows at a time: O(n) memory."""

import math
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from mha import shapes
from mha.nn import formula
from mha.nn.dot_product import attention, own_precision
from mha.nn.fused import transformed
from mha.nn.hidden import select
from mha.nn.visible import visible

__all__ = ["Stats", "attention_stats"]

CHUNK = 2**20  # logits held at once: they stay in the cache


class Stats(NamedTuple):
    """Per query row (…, h, i), in float32 or better."""

    lse: Any  # log of the softmax denominator, the sink's term included; −inf for an empty row
    max_logit: Any  # the sink left out
    entropy: Any  # in nats, of the weights of the visible keys made to sum to 1; 0 for an empty row


def attention_stats(
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
):
    """Return the output of `attention`, the same bits, and its `Stats`.   Book: {eq}`attention-stats`

    The statistics are those before dropout. They are differentiable: the backward pass computes the logits again.
    """
    options = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "sinks": sinks, "q_start": q_start}
    out = attention(q, k, v, **options, dropout=dropout)
    call = shapes.check(q, k, v, **options)
    with own_precision(q):
        rows = max(1, CHUNK // max(1, call.batch * call.num_heads * call.n_k))
        parts = [
            _rows(call, q, k, bias, sinks, slice(start, min(start + rows, call.n_q)))
            for start in range(0, max(call.n_q, 1), rows)
        ]
        return out, Stats(*(torch.cat(columns, -1) for columns in zip(*parts, strict=True)))


def _rows(call, q, k, bias, sinks, rows):
    q = q[..., rows, :]
    bias = bias if bias is None or bias.ndim < 2 or bias.shape[-2] == 1 else bias[..., rows, :]
    see = visible(call, q.device, bias, rows)
    if torch.is_grad_enabled() and not transformed(q, k):
        return checkpoint(_statistics, call, q, k, see, bias, sinks, use_reentrant=False, preserve_rng_state=False)
    return _statistics(call, q, k, see, bias, sinks)


def _statistics(call, q, k, see, bias, sinks):
    q, k, _, poison = (q, k, None, None) if see is None else select(q, k, None, see)
    s = formula.scores(q, k, see, bias=bias, scale=call.scale, softcap=call.softcap)
    top = formula.row_max(s)
    shift = top.detach().masked_fill(top.detach() == -math.inf, 0.0)
    e = (s - shift).exp()
    total = e.sum(-1, keepdim=True)
    alone = total == 0  # a row that sees nothing
    total = total.masked_fill(alone, 1.0)
    log_total = total.log()
    mean = (e * (s - shift).masked_fill(e == 0, 0.0)).sum(-1, keepdim=True) / total
    lse = (shift + log_total).masked_fill(alone, -math.inf)
    if sinks is not None:
        lse = torch.logaddexp(lse, formula.wide(sinks)[:, None, None].expand_as(lse))
    stats = lse, top, log_total - mean
    return tuple((x if poison is None else x + poison)[..., 0] for x in stats)
