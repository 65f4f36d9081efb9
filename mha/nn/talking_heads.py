"""Talking heads: heads mix their scores before the softmax and their weights after it (Shazeer et al. 2020).

Letters beside those of `dot_product`: s head of the softmax, o head of the output; there are as many of all. A NaN or
an infinity that a query sees makes its whole row NaN.
"""

import torch
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks, formula
from mha.nn.hidden import Selected, poisoned
from mha.nn.modes import own_precision
from mha.nn.visible import visible

__all__ = ["TalkingHeads", "talking_heads_attention"]


def talking_heads_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    before: "Float[Tensor, 'h s']",
    after: "Float[Tensor, 's o']",
    *,
    mask=None,
    bias=None,
    scale=None,
    q_start=None,
) -> "Float[Tensor, '*b o i e']":
    """Mix the scores of all heads by `before`, take a softmax each, mix the weights by `after`.

    Mask and bias act between, on the softmax: what a head of the softmax may not see weighs nothing there. Mixed
    weights can be negative and need not sum to 1, so there is no lse, no sink and no cap.
    """
    checks.tensors(q=q, k=k, v=v, before=before, after=after)
    call = shapes.check_talking_heads(q, k, v, before, after, mask=mask, bias=bias, scale=scale, q_start=q_start)
    q, k, v = formula.alike(q, k, v)
    with own_precision(q):
        see = visible(call, q.device, bias)
        given = Selected(q, k, v) if see is None else poisoned(q, k, v, _by_any_head(see))
        s = _mixed(formula.scores(given.q, given.k, None, scale=call.scale), before)
        s = s if bias is None else s + bias
        s = s if see is None else torch.where(see, s, -torch.inf)
        out = formula.mix(_mixed(formula.softmax(s), after), given.v).to(v.dtype)
    return out if given.poison is None else out + given.poison.sum(-3, keepdim=True)


class TalkingHeads(nn.Module):
    """Talking heads as the core of a `MultiHeadAttention`; they begin silent, each head with its own scores alone."""

    def __init__(self, num_heads, *, device=None, dtype=None):
        super().__init__()
        shape = (count("num_heads", num_heads, least=1),) * 2
        self.before, self.after = (nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self):
        """Set both mixtures to the identity."""
        nn.init.eye_(self.before)
        nn.init.eye_(self.after)

    def forward(
        self, q, k, v, *, mask=None, bias=None, scale=None, softcap=None, sinks=None, q_start=None, dropout=None
    ):
        """Return what `talking_heads_attention` does; the options that it lacks are refused."""
        shapes.refuse("talking-heads attention", softcap=softcap, sinks=sinks, dropout=dropout)
        options = {"mask": mask, "bias": bias, "scale": scale, "q_start": q_start}
        return talking_heads_attention(q, k, v, self.before, self.after, **options)

    def extra_repr(self):
        return f"{len(self.before)}"


def _by_any_head(see):
    """Tell which pairs some head of the softmax sees: every head's scores go into them."""
    return see if see.ndim < 3 else see.any(-3, keepdim=True)


def _mixed(x, mixture):
    return torch.einsum("...hij,hs->...sij", x, mixture.to(x.dtype))
