"""Differential attention: the difference of two attentions, which cancels what both see (Ye et al., 2024)."""

import numpy as np

from mha import shapes
from mha.reference.dot_product import attention
from mha.reference.norm import rms_norm


def differential_attention(
    q: "Float[Array, '*b h i dd']",
    k: "Float[Array, '*b g j dd']",
    v: "Float[Array, '*b g j e']",
    weight,
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    q_start=None,
) -> "Float[Array, '*b h i e']":
    """Subtract a second attention, times `weight`, from a first: (softmax(q₁k₁ᵀ) − λ softmax(q₂k₂ᵀ)) v.

    The first halves of q and k, each of width d, make the first map, the second halves the second; the scale is 1 / √d
    unless given. `weight`, λ, is a number or an array that broadcasts to the output. Mask and bias hold for both maps.
    A row's weights sum to 1 − λ, so no row has a lse, a sink or a place in a merge.
    """
    q, k = shapes.float64("q", q), shapes.float64("k", k)
    shapes.check_halves(q)
    (q1, q2), (k1, k2) = (np.split(x, 2, axis=-1) for x in (q, k))
    options = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "q_start": q_start}
    return attention(q1, k1, v, **options) - weight * attention(q2, k2, v, **options)


def difference_weight(
    q1: "Float[Array, ' d']",
    k1: "Float[Array, ' d']",
    q2: "Float[Array, ' d']",
    k2: "Float[Array, ' d']",
    start,
) -> "Float[Array, '']":
    """Return λ = e^(q₁·k₁) − e^(q₂·k₂) + start, from four learned vectors; `start` is that of `starting_weight`."""
    return np.exp(q1 @ k1) - np.exp(q2 @ k2) + start


def starting_weight(depth) -> float:
    """Return what λ begins at in the layer of this depth, 0 for the first: 0.8 − 0.6 e^(−0.3 depth)."""
    return 0.8 - 0.6 * float(np.exp(-0.3 * depth))


def normed_heads(heads: "Float[Array, '*b h i e']", start, eps=1e-5) -> "Float[Array, '*b h i e']":
    """Bring each head's output to one size, times 1 − start: subtraction leaves heads of very different sizes."""
    return (1 - start) * rms_norm(heads, eps=eps)
