"""Differential attention: the difference of two attentions, which cancels what both see (Ye et al. 2024)."""

import math

import torch
from einops import rearrange
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks, formula
from mha.nn.dot_product import attention
from mha.nn.layer_checks import check_input, contexts

__all__ = [
    "DifferentialAttention",
    "difference_weight",
    "differential_attention",
    "normed_heads",
    "starting_weight",
]


def differential_attention(
    q: "Float[Tensor, '*b h i dd']",
    k: "Float[Tensor, '*b g j dd']",
    v: "Float[Tensor, '*b g j e']",
    weight,
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    q_start=None,
) -> "Float[Tensor, '*b h i e']":
    """Subtract a second attention, times `weight`, from a first: (softmax(q₁k₁ᵀ) − λ softmax(q₂k₂ᵀ)) v.

    The first halves of q and k, each of width d, make the first map, the second halves the second; the scale is 1 / √d
    unless given. `weight`, λ, is a number or a tensor that broadcasts to the output. Mask and bias hold for both maps.
    A row's weights sum to 1 − λ, so no row has a lse, a sink or a place in a merge.
    """
    checks.tensors(q=q, k=k, v=v)
    shapes.check(q, k, v)
    shapes.check_halves(q)
    (q1, q2), (k1, k2) = (x.chunk(2, -1) for x in (q, k))
    options = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "q_start": q_start}
    return attention(q1, k1, v, **options) - weight * attention(q2, k2, v, **options)


def difference_weight(
    q1: "Float[Tensor, ' d']",
    k1: "Float[Tensor, ' d']",
    q2: "Float[Tensor, ' d']",
    k2: "Float[Tensor, ' d']",
    start,
) -> "Float[Tensor, '']":
    """Return λ = e^(q₁·k₁) − e^(q₂·k₂) + start, from four learned vectors; `start` is that of `starting_weight`."""
    return torch.exp(q1 @ k1) - torch.exp(q2 @ k2) + start


def starting_weight(depth) -> float:
    """Return what λ begins at in the layer of this depth, 0 for the first: 0.8 − 0.6 e^(−0.3 depth)."""
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


def normed_heads(heads: "Float[Tensor, '*b h i e']", start, eps=1e-5) -> "Float[Tensor, '*b h i e']":
    """Bring each head's output to one size, times 1 − start: subtraction leaves heads of very different sizes."""
    x = formula.wide(heads)
    return ((1 - start) * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)).to(heads.dtype)


class DifferentialAttention(nn.Module):
    """A layer of differential attention between x and a context, x itself by default.

    A head is two maps of width d_model / (2 · num_heads) over values of twice that width. `depth` counts the layers
    from 0 and sets where λ begins; all heads of the layer share λ. No norm has a gain: `out_proj` has one.
    """

    def __init__(self, d_model, num_heads, *, depth, num_kv_heads=None, bias=True, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        shapes.check_heads(d_model, 2 * count("num_heads", num_heads, least=1))
        shapes.check_groups(num_heads, count("num_kv_heads", num_kv_heads, least=1))
        self.num_heads, self.num_kv_heads, self.start = num_heads, num_kv_heads, starting_weight(count("depth", depth))
        width, options = d_model // num_heads, {"device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, d_model, bias=bias, **options)
        self.k_proj = nn.Linear(d_model, num_kv_heads * width, bias=bias, **options)
        self.v_proj = nn.Linear(d_model, num_kv_heads * width, bias=bias, **options)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias, **options)
        self.contrast = nn.Parameter(torch.empty(4, width // 2, **options))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights by Glorot's rule and the vectors of λ at 0.1, and set biases to zero."""
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        nn.init.normal_(self.contrast, std=0.1)

    def forward(self, x, context=None, *, mask=None, bias=None):
        """Return (batch, length, d_model)."""
        for_keys, for_values = contexts(x, context)
        check_input("x", x, self.q_proj)
        check_input("context", for_keys, self.k_proj)
        check_input("context", for_values, self.v_proj)
        q, k, v = self.q_proj(x), self.k_proj(for_keys), self.v_proj(for_values)
        q = rearrange(q, "... n (h d) -> ... h n d", h=self.num_heads)
        k, v = (rearrange(y, "... n (g d) -> ... g n d", g=self.num_kv_heads) for y in (k, v))
        weight = difference_weight(*self.contrast, self.start)
        heads = normed_heads(differential_attention(q, k, v, weight, mask=mask, bias=bias), self.start)
        return self.out_proj(rearrange(heads, "... h n d -> ... n (h d)"))

    def extra_repr(self):
        return f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, start={self.start:.3g}"
