"""Sigmoid attention: a weight is the sigmoid of one score, and no key takes from another (Ramapuram et al. 2025).

A NaN or an infinity that a query sees makes its whole row NaN.
"""

import torch

from mha import shapes
from mha.nn import checks, formula
from mha.nn import dropout as dropping
from mha.nn.hidden import Selected, poisoned
from mha.nn.modes import own_precision
from mha.nn.visible import visible

__all__ = ["sigmoid_attention", "sigmoid_weights"]


def sigmoid_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    offset=None,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> "Float[Tensor, '*b h i e']":
    """Sum the values of the visible keys, each weighted by σ(score + offset); a query that sees no key gets 0.

    The offset, a number, is −log n of the n keys that the row sees unless given: so many weights begin at a sum of
    about 1. The paper takes one n, the length of the sequence, for all rows: pass offset=−log(n). There is no
    denominator, so sinks are refused and no lse exists. It is a core of `MultiHeadAttention`.
    """
    shapes.refuse("sigmoid attention", sinks=sinks)
    checks.tensors(q=q, k=k, v=v)
    options = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "q_start": q_start}
    call = shapes.check(q, k, v, dropout=dropout, **options)
    q, k, v = formula.alike(q, k, v)
    with own_precision(q):
        p, given = _weights(call, q, k, v, bias, offset)
        if call.dropout is not None:
            p = p * dropping.factors(call.dropout, torch.Size(call.weights_shape), p.device, p.dtype)
        out = formula.mix(p, given.v).to(v.dtype)
    return out if given.poison is None else out + given.poison


def sigmoid_weights(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    *,
    offset=None,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    q_start=None,
) -> "Float[Tensor, '*b h i j']":
    """Return the weights of `sigmoid_attention`, before dropout: each between 0 and 1, whatever the others are."""
    checks.tensors(q=q, k=k)
    call = shapes.check(q, k, mask=mask, bias=bias, scale=scale, softcap=softcap, q_start=q_start)
    q, k = formula.alike(q, k)
    with own_precision(q):
        p, given = _weights(call, q, k, None, bias, offset)
    p = p.to(q.dtype)
    return p if given.poison is None else p + given.poison


def _weights(call, q, k, v, bias, offset):
    """Return the weights, 0 where hidden, and what the inputs are without what could spoil others."""
    see = visible(call, q.device, bias)
    given = Selected(q, k, v) if see is None else poisoned(q, k, v, see)
    s = formula.scores(given.q, given.k, see, bias=bias, scale=call.scale, softcap=call.softcap)
    if offset is None:
        number = torch.tensor(call.n_k, device=s.device) if see is None else see.sum(-1, keepdim=True)
        offset = -number.clamp(min=1).to(s.dtype).log()
    return torch.sigmoid(s + offset), given
