"""Linformer: fewer keys and values, each a learned mixture of all positions (Wang et al. 2020).

Same meaning as `mha.reference`.
"""

import torch
from torch import nn

from mha.approximations import ask
from mha.integers import count
from mha.nn import checks
from mha.nn.dot_product import attention
from mha.nn.formula import alike
from mha.nn.linear.visible_keys import hidden_as_zeros, visible_keys
from mha.nn.modes import own_precision
from mha.options import hinted

__all__ = ["Linformer"]


class Linformer(nn.Module):
    """A core that attends to Eᵀ K and Fᵀ V, with E and F of shape (length, rank) learned, shared by all heads.

    Fewer keys than `length` meet the first rows of E and F. Rows go by position: padding in front of a sample or behind
    it changes nothing. Every mixture holds all positions, so that no mask can keep the future out.
    """

    supports = frozenset({"padding", "cross"})

    def __init__(self, length, rank, *, device=None, dtype=None):
        super().__init__()
        sizes = count("length", length), count("rank", rank, least=1)
        self.e = nn.Parameter(torch.empty(sizes, device=device, dtype=dtype))
        self.f = nn.Parameter(torch.empty(sizes, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw E and F from a normal distribution of variance 1 / rank, as the paper's theorem does."""
        for weight in (self.e, self.f):
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)

    def of_heads(self, heads):
        """Return the core itself: E and F are those of all heads."""
        return self

    @hinted
    def forward(self, q, k, v, **options):
        """Return what `mha.nn.attention` returns on the mixtures."""
        checks.tensors(q=q, k=k, v=v)
        asked = ask(self, q, k, v, **options)
        if asked.call.n_k > len(self.e):
            raise ValueError(f"k has length {asked.call.n_k}: expected at most {len(self.e)}, the length of e and f")
        dtype = v.dtype
        with own_precision(q):
            k, v, e, f = alike(*hidden_as_zeros(visible_keys(asked, q.device), k, v), self.e, self.f)
            k, v = (rows_of(weights, asked).mT @ rows for weights, rows in ((e, k), (f, v)))
            return attention(q, k, v, scale=asked.call.scale).to(dtype)

    def extra_repr(self):
        return ", ".join(map(str, self.e.shape))


def rows_of(weights, asked):
    """Return the rows of the weights that stand at the positions of the keys, from a sample's first valid key on."""
    first = asked.first_keys()
    if first is None:
        return weights[: asked.call.n_k]
    first = torch.as_tensor(first, device=weights.device).reshape(*asked.call.batch_shape, 1, 1)
    return weights[(torch.arange(asked.call.n_k, device=weights.device) - first).clamp(min=0)]
