"""Fewer key/value heads, or none that are stored: grouped and latent attention on torch tensors.

Same meaning as `mha.reference.grouped`. The rows of a token, latent and rotated, are read as keys and values both.
"""

import copy

import torch
from einops import einsum, rearrange
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks, layer_checks
from mha.nn.cache import cached_attention
from mha.nn.dot_product import attention
from mha.nn.heads import MultiHeadAttention, join_heads, split_heads
from mha.nn.norm import normed
from mha.nn.rotary import Rotary
from mha.nn.surgery import Surgery, pooled_key_heads

__all__ = ["LatentAttention", "absorbed_attention", "latent_attention", "with_pooled_heads"]


def latent_attention(
    q: "Float[Tensor, '*b h i d']",
    q_rope: "Float[Tensor, '*b h i r']",
    latent: "Float[Tensor, '*b j c']",
    k_rope: "Float[Tensor, '*b j r']",
    w_k: "Float[Tensor, 'h c d']",
    w_v: "Float[Tensor, 'h c e']",
    *,
    core=attention,
    **options,
) -> "Float[Tensor, '*b h i e']":
    """Make the keys and values of all heads from one latent row a token, then attend.   Book: {eq}`latent-attention`

    Every head's key ends in the same rotated part. The scale is 1 / √(d + r) unless given; `options` are those of
    `core`.
    """
    _check(q, q_rope, latent, k_rope, w_k, w_v)
    k, v = (einsum(latent, w, "... j c, h c x -> ... h j x") for w in (w_k, w_v))
    k_rope = k_rope.unsqueeze(-3).expand(*k.shape[:-1], -1)
    return core(torch.cat((q, q_rope), -1), torch.cat((k, k_rope), -1), v, **options)


def absorbed_attention(
    q: "Float[Tensor, '*b h i d']",
    q_rope: "Float[Tensor, '*b h i r']",
    latent: "Float[Tensor, '*b j c']",
    k_rope: "Float[Tensor, '*b j r']",
    w_k: "Float[Tensor, 'h c d']",
    w_v: "Float[Tensor, 'h c e']",
    *,
    core=attention,
    scale=None,
    **options,
) -> "Float[Tensor, '*b h i e']":
    """Return the numbers of `latent_attention` without making keys and values.   Book: {eq}`absorbed-attention`

    The queries take W_K on, the outputs W_V; all heads read the latent rows themselves, as one key head.
    """
    _check(q, q_rope, latent, k_rope, w_k, w_v)
    rows = torch.cat((latent, k_rope), -1).unsqueeze(-3)
    scale = _scale(q, q_rope) if scale is None else scale
    return _give(core(_take(q, q_rope, w_k), rows, rows, scale=scale, **options), w_v)


def _check(q, q_rope, latent, k_rope, w_k, w_v):
    checks.tensors(q=q, q_rope=q_rope, latent=latent, k_rope=k_rope, w_k=w_k, w_v=w_v)
    shapes.check_latent(q, q_rope, latent, k_rope, w_k, w_v)


def _take(q, q_rope, w_k):
    """Let the queries take the key projection on: what they ask a latent row and its rotated part."""
    return torch.cat((einsum(q, w_k, "... h i d, h c d -> ... h i c"), q_rope), -1)


def _give(found, w_v):
    """Project what the heads found in the latent rows; the rotated columns behind them are no values."""
    return einsum(found[..., : w_v.shape[1]], w_v, "... h i c, h c e -> ... h i e")


def _scale(q, q_rope):
    return (q.shape[-1] + q_rope.shape[-1]) ** -0.5


class LatentAttention(nn.Module):
    """Multi-head latent attention (DeepSeek-AI, 2024): a token is remembered as one latent row, shared by all heads.

    `d_latent` is the width of that row, `d_rope` that of the part of queries and keys that `position` turns, and
    `d_head` that of the rest; values are `d_value` wide, d_head by default. With `d_query_latent` the queries pass
    through a latent row too. Inputs and outputs are (batch, length, d_model).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_latent: int,
        d_head: int,
        d_rope: int,
        d_value: int | None = None,
        d_query_latent: int | None = None,
        position=Rotary(layout="interleaved"),  # noqa: B008, an immutable value
        norm_eps: float = 1e-6,
        core=attention,
        device=None,
        dtype=None,
    ):
        super().__init__()
        d_value = d_head if d_value is None else d_value
        sizes = {"d_model": d_model, "num_heads": num_heads, "d_latent": d_latent, "d_head": d_head}
        sizes |= {"d_rope": d_rope, "d_value": d_value}
        for name, size in (sizes | ({} if d_query_latent is None else {"d_query_latent": d_query_latent})).items():
            count(name, size, least=1)
        layer_checks.check_options(d_rope, position, None, None, 0.0, core, dtype, width="d_rope")
        adds = hasattr(position, "bias") or hasattr(position, "content_bias")
        if position is not None and (adds or not hasattr(position, "rotate")):
            raise TypeError(f"position is {position!r}: expected rotate(x, positions) alone; a bias goes into the call")
        self.num_heads, self.d_latent, self.d_head, self.d_rope = num_heads, d_latent, d_head, d_rope
        self.position, self.core = position, core
        options = {"bias": False, "device": device, "dtype": dtype}
        norm = {"eps": norm_eps, "device": device, "dtype": dtype}
        self.q_down: nn.Module = nn.Identity()
        self.q_norm: nn.Module = nn.Identity()
        if d_query_latent is not None:
            self.q_down = nn.Linear(d_model, d_query_latent, **options)
            self.q_norm = nn.RMSNorm(d_query_latent, **norm)
        d_asking = d_model if d_query_latent is None else d_query_latent
        self.q_up = nn.Linear(d_asking, num_heads * (d_head + d_rope), **options)
        self.kv_down = nn.Linear(d_model, d_latent + d_rope, **options)
        self.kv_norm = nn.RMSNorm(d_latent, **norm)
        self.k_up = nn.Linear(d_latent, num_heads * d_head, **options)
        self.v_up = nn.Linear(d_latent, num_heads * d_value, **options)
        self.out_proj = nn.Linear(num_heads * d_value, d_model, **options)

    def forward(self, x, *, mask=None, bias=None):
        """Return (batch, length, d_model), from keys and values made for each head.   Book: {eq}`latent-attention`"""
        layer_checks.check_input("x", x, self.kv_down)
        parts = self._projected(x, torch.arange(x.shape[-2], device=x.device))
        heads = latent_attention(*parts, *self._maps(), core=self.core, mask=mask, bias=bias)
        return self.out_proj(join_heads(heads))

    def step(self, x, cache, *, mask=None, bias=None):
        """Return the output of the next rows and the cache with them, (b, 1, slots, d_latent + d_rope) of numbers.

        The rest is as in `MultiHeadAttention.step`. It reads the latent rows, and never makes keys or values from
        them.   Book: {eq}`absorbed-attention`
        """
        layer_checks.check_input("x", x, self.kv_down)
        layer_checks.check_cache(cache, x)
        q, q_rope, latent, k_rope = self._projected(x, cache.positions(x.shape[-2], x.device))
        w_k, w_v = self._maps()
        rows = torch.cat((latent, k_rope), -1).unsqueeze(-3)
        options = {"core": self.core, "mask": mask, "bias": bias, "scale": _scale(q, q_rope)}
        found, cache = cached_attention(_take(q, q_rope, w_k), rows, None, cache, **options)
        return self.out_proj(join_heads(_give(found, w_v))), cache

    def _projected(self, x, positions):
        """Return what the heads ask, q and its rotated part, and what a token shows: latent row and rotated part."""
        q = split_heads(self.q_up(normed(self.q_norm, self.q_down(x))), self.num_heads)
        q, q_rope = q.split((self.d_head, self.d_rope), -1)
        latent, k_rope = self.kv_down(x).split((self.d_latent, self.d_rope), -1)
        if self.position is not None:
            q_rope = self.position.rotate(q_rope, positions)
            k_rope = self.position.rotate(k_rope.unsqueeze(-3), positions).squeeze(-3)
        return q, q_rope, normed(self.kv_norm, latent), k_rope

    def _maps(self):
        """Return W_K and W_V, a matrix a head: (heads, d_latent, d_head) and (heads, d_latent, d_value)."""
        return (rearrange(up.weight, "(h x) c -> h c x", h=self.num_heads) for up in (self.k_up, self.v_up))


def with_pooled_heads(module: MultiHeadAttention, num_kv_heads: int) -> MultiHeadAttention:
    """Return a copy with fewer key/value heads, each the mean of those of its group (Ainslie et al. 2023)."""
    count("num_kv_heads", num_kv_heads, least=1)
    pooled = copy.deepcopy(module)
    Surgery(pooled_key_heads(pooled, num_kv_heads)).apply()
    if module.built_with == (module.num_heads, module.num_kv_heads):
        pooled.built_with = (pooled.num_heads, num_kv_heads)  # a grouped layer as any other, its states too
    return pooled
