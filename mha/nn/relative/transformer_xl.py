"""Relative positions as sinusoids that queries look for, each head in its own way (Dai et al. 2019).

The sinusoid of i − j is linear in that of j, by a matrix that i alone decides. So what the distance adds is one
product of two matrices, whatever the positions; no table of distances is shifted.
"""

import torch
from einops import einsum, rearrange
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import wide
from mha.nn.modes import own_precision
from mha.nn.position import sinusoidal
from mha.nn.relative.pairs import check_positions
from mha.nn.strips import linear_of_heads, of_heads, shallow_copy

__all__ = ["TransformerXLBias", "transformer_xl_bias"]


def transformer_xl_bias(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    u: "Float[Tensor, 'h d']",
    v: "Float[Tensor, 'h d']",
    w_r: "Float[Tensor, 'm hd']",
    q_positions: "Int[Tensor, '*b i']",
    k_positions: "Int[Tensor, '*b j']",
    *,
    base=10000.0,
    scale=None,
) -> "Float[Tensor, '*b h i j']":
    """Return scale · (u·k_j + (q_i + v)·r_{i−j}), what the scheme adds to scale · q_i·k_j.

    r is the sinusoid of the distance, query minus key, projected by `w_r`. u asks each key for what it is whatever the
    query, v asks each distance. The scale is 1/√d unless given. In at least float32, as scores
    are.
    """
    checks.tensors(q=q, k=k, u=u, v=v, w_r=w_r)
    check_positions(q_positions, k_positions)
    shapes.check_contents(q_positions, k_positions, q, k)
    num_heads, d_head = q.shape[-3], q.shape[-1]
    shapes.check_shape("u", u, (num_heads, d_head))
    shapes.check_shape("v", v, (num_heads, d_head))
    shapes.check_shape("w_r", w_r, (len(w_r), num_heads * d_head))
    shapes.check_groups(num_heads, k.shape[-3])
    scale = d_head**-0.5 if scale is None else scale
    q, k, u, v, w_r = map(wide, (q, k, u, v, w_r))
    u, w_r = rearrange(u, "(g r) d -> g r d", g=k.shape[-3]), rearrange(w_r, "m (h d) -> m h d", d=d_head)
    waves = {"d_model": len(w_r), "base": base, "layout": "half", "dtype": q.dtype}
    at_q, at_k = (sinusoidal(x, **waves).unsqueeze(-3) for x in (q_positions, k_positions))
    with own_precision(q):
        by_key = einsum(k, u, "... g j d, g r d -> ... g r j").flatten(-3, -2)
        asked = einsum(q + v[:, None], w_r, "... h i d, m h d -> ... h i m")
        by_distance = _turned_back(asked, at_q) @ at_k.mT
    return scale * (by_key.unsqueeze(-2) + by_distance)


def _turned_back(asked, at_q):
    """Return what, against the sinusoid of j, gives what `asked` gives against that of i − j."""
    (for_sine, for_cosine), (sine, cosine) = asked.chunk(2, -1), at_q.chunk(2, -1)
    return torch.cat((for_cosine * sine - for_sine * cosine, for_sine * sine + for_cosine * cosine), -1)


class TransformerXLBias(nn.Module):
    """A position scheme for `MultiHeadAttention(position=...)`: queries look for keys at a distance, and for any.

    `r_proj` makes the rows of distances from sinusoids `d_model` wide; `u` and `v`, (num_heads, d_head), are what every
    query asks besides. In the paper all layers have one u and one v; layers may share a scheme, too.
    """

    def __init__(self, d_model, num_heads, *, d_head=None, base=10000.0, device=None, dtype=None):
        super().__init__()
        shapes.check_sinusoid(count("d_model", d_model, least=1), base, "half")
        if d_head is None:
            shapes.check_heads(d_model, count("num_heads", num_heads, least=1))
            d_head = d_model // num_heads
        shape = count("num_heads", num_heads, least=1), count("d_head", d_head, least=1)
        options = {"device": device, "dtype": dtype}
        self.base = base
        self.r_proj = nn.Linear(d_model, num_heads * d_head, bias=False, **options)
        self.u, self.v = (nn.Parameter(torch.empty(shape, **options)) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the projection by Glorot's rule and set u and v to zero."""
        nn.init.xavier_uniform_(self.r_proj.weight)
        nn.init.zeros_(self.u)
        nn.init.zeros_(self.v)

    def of_heads(self, heads):
        """Return the scheme of these heads alone, with parameters of its own."""
        made = shallow_copy(self)
        made.u, made.v = (of_heads(part, heads) for part in (self.u, self.v))
        made.r_proj = linear_of_heads(self.r_proj, heads, self.u.shape[1])
        return made

    def content_bias(self, q, k, q_positions, k_positions, scale=None):
        """Return what the scheme adds to the scores of q and k: `transformer_xl_bias`."""
        parts = self.u, self.v, self.r_proj.weight.mT
        return transformer_xl_bias(q, k, *parts, q_positions, k_positions, base=self.base, scale=scale)
