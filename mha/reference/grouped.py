"""Fewer key/value heads, or none that are stored: grouped and latent attention.

Letters beside those of `dot_product`: c latent, r rotated width. Weights multiply from the right, a matrix a head.
"""

import numpy as np

from mha import shapes
from mha.integers import count
from mha.reference.dot_product import attention


def grouped_heads(num_heads, num_kv_heads) -> "Int[Array, ' h']":
    """Return which key/value head each query head reads: neighbours share one.   Book: {eq}`grouped-heads`."""
    num_heads, num_kv_heads = count("num_heads", num_heads, least=1), count("num_kv_heads", num_kv_heads, least=1)
    shapes.check_groups(num_heads, num_kv_heads)
    return np.arange(num_heads) * num_kv_heads // num_heads


def pool_heads(w: "Float[Array, 'm hd']", num_heads, num_kv_heads) -> "Float[Array, 'm gd']":
    """Average the key or value heads of each group: a start for a grouped model (Ainslie et al., 2023)."""
    w = shapes.float64("w", w)
    shapes.check_rank("w", w, ("width in", "width out"))
    shapes.check_heads(w.shape[-1], num_heads, name="the width of w")
    shapes.check_groups(num_heads, num_kv_heads)
    strips = w.reshape(*w.shape[:-1], num_kv_heads, num_heads // num_kv_heads, -1)
    return strips.mean(-2).reshape(*w.shape[:-1], -1)


def latent_attention(
    q: "Float[Array, '*b h i d']",
    q_rope: "Float[Array, '*b h i r']",
    latent: "Float[Array, '*b j c']",
    k_rope: "Float[Array, '*b j r']",
    w_k: "Float[Array, 'h c d']",
    w_v: "Float[Array, 'h c e']",
    *,
    scale=None,
    **options,
) -> "Float[Array, '*b h i e']":
    """Make the keys and values of all heads from one latent row a token, then attend.   Book: {eq}`latent-attention`.

    Every head's key ends in the same rotated part. The scale is 1 / √(d + r) unless given; `options` are those of
    `attention`.
    """
    q, q_rope, latent, k_rope, w_k, w_v = in_float64(q, q_rope, latent, k_rope, w_k, w_v)
    k, v = (np.einsum("...jc,hcx->...hjx", latent, w) for w in (w_k, w_v))
    k_rope = np.broadcast_to(k_rope[..., None, :, :], (*k.shape[:-1], k_rope.shape[-1]))
    q, k = np.concatenate([q, q_rope], -1), np.concatenate([k, k_rope], -1)
    return attention(q, k, v, scale=scale, **options)


def absorbed_attention(
    q: "Float[Array, '*b h i d']",
    q_rope: "Float[Array, '*b h i r']",
    latent: "Float[Array, '*b j c']",
    k_rope: "Float[Array, '*b j r']",
    w_k: "Float[Array, 'h c d']",
    w_v: "Float[Array, 'h c e']",
    *,
    scale=None,
    **options,
) -> "Float[Array, '*b h i e']":
    """Return the numbers of `latent_attention` without making keys and values.   Book: {eq}`absorbed-attention`.

    The queries take W_K on, the outputs W_V; all heads read the latent rows themselves, as one key head.
    """
    q, q_rope, latent, k_rope, w_k, w_v = in_float64(q, q_rope, latent, k_rope, w_k, w_v)
    scale = (q.shape[-1] + q_rope.shape[-1]) ** -0.5 if scale is None else scale
    q = np.concatenate([np.einsum("...hid,hcd->...hic", q, w_k), q_rope], -1)
    k = np.concatenate([latent, k_rope], -1)[..., None, :, :]
    found = attention(q, k, latent[..., None, :, :], scale=scale, **options)
    return np.einsum("...hic,hce->...hie", found, w_v)


def in_float64(q, q_rope, latent, k_rope, w_k, w_v):
    """Return the arguments of latent attention in float64, or raise where their axes do not fit."""
    names = "q", "q_rope", "latent", "k_rope", "w_k", "w_v"
    arrays = [shapes.float64(name, x) for name, x in zip(names, (q, q_rope, latent, k_rope, w_k, w_v), strict=True)]
    shapes.check_latent(*arrays)
    return arrays
