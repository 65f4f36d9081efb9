"""What a row of logits amounts to (log-sum-exp, largest logit, entropy), a few rows at a time: O(n) memory."""

import math
from typing import Any, NamedTuple

import torch

from mha import shapes
from mha.nn import formula
from mha.nn.dot_product import attention, scores
from mha.nn.hidden import Selected, select
from mha.nn.modes import own_precision, transformed
from mha.nn.visible import visible
from mha.options import hinted

__all__ = ["Stats", "attention_stats"]

CHUNK = 2**20  # logits held at once: they stay in the cache


class Stats(NamedTuple):
    """Per query row (…, h, i), in float32 or better."""

    lse: Any  # log of the softmax denominator, the sink's term included; −inf for an empty row
    max_logit: Any  # the sink left out
    entropy: Any  # in nats, of the weights of the visible keys made to sum to 1; 0 for an empty row


@hinted
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
    q, k = formula.alike(q, k)
    with own_precision(q):
        if torch.compiler.is_compiling() or transformed(q, k, bias, sinks) or not torch.is_grad_enabled():
            return out, Stats(*_all_rows(call, q, k, bias, sinks))
        return out, Stats(*_Recomputed.apply(call, q, k, bias, sinks))


def _all_rows(call, *tensors):
    return torch.cat([_statistics(call, rows, *tensors) for rows in _chunks(call)], -1)


def _chunks(call):
    step = max(1, CHUNK // max(1, call.batch * call.num_heads * call.n_k))
    return [slice(start, min(start + step, call.n_q)) for start in range(0, max(1, call.n_q), step)]


class _Recomputed(torch.autograd.Function):
    """`_all_rows`, whose backward pass computes the logits again, chunk by chunk, and keeps none."""

    @staticmethod
    def forward(ctx, call, *tensors):
        ctx.call = call
        ctx.save_for_backward(*tensors)
        return _all_rows(call, *tensors)

    @staticmethod
    def backward(ctx, d_stats):
        wanted = [n for n, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        found = [None] * len(ctx.saved_tensors)
        if torch.is_grad_enabled():  # a second derivative is coming: it needs the graph of all rows
            aliases = [x if x is None else x.view_as(x) for x in ctx.saved_tensors]  # q and k may be one tensor
            parts = [_pulled(_all_rows(ctx.call, *aliases), aliases, wanted, d_stats, create_graph=True)]
        else:
            parts = (_chunk_gradients(ctx.call, rows, ctx.saved_tensors, wanted, d_stats) for rows in _chunks(ctx.call))
        for part in parts:
            for n, gradient in zip(wanted, part, strict=True):
                found[n] = gradient if found[n] is None else found[n] + gradient
        return None, *found


def _chunk_gradients(call, rows, tensors, wanted, d_stats):
    leaves = [x if x is None else x.detach().requires_grad_(n in wanted) for n, x in enumerate(tensors)]
    with torch.enable_grad():
        stats = _statistics(call, rows, *leaves)
    return _pulled(stats, leaves, wanted, d_stats[..., rows], create_graph=False)


def _pulled(stats, tensors, wanted, d_stats, create_graph):
    return torch.autograd.grad(stats, [tensors[n] for n in wanted], d_stats, create_graph=create_graph)


def _statistics(call, rows, q, k, bias, sinks):
    q = q[..., rows, :]
    bias = bias if bias is None or bias.ndim < 2 or bias.shape[-2] == 1 else bias[..., rows, :]
    see = visible(call, q.device, bias, rows)
    s, poison = scores(call, Selected(q, k, None) if see is None else select(q, k, None, see), see, bias)
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
    stats = torch.stack((lse, top, log_total - mean))[..., 0]
    return stats if poison is None else stats + poison[..., 0]
