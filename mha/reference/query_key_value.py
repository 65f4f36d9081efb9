"""Queries, keys and values: attention as a soft lookup, and the sequences from which the three are made.

Weights are (d_in, d_out) and multiply from the right, x W, as papers write them. One head; many are in `heads.py`.
"""

import numpy as np

from mha import shapes
from mha.reference.dot_product import attention
from mha.reference.heads import project


def soft_lookup(
    queries: "Float[Array, '*b i d']",
    keys: "Float[Array, '*b j d']",
    values: "Float[Array, '*b j e']",
    *,
    temperature=1.0,
) -> "Float[Array, '*b i e']":
    """Answer each query by the mean of all values, weighted by how well their keys match.   Book: {eq}`soft-lookup`.

    At temperature 0 the best match answers alone; keys that match equally well share the answer.
    """
    _check_temperature(temperature)
    q, k, v = _as_one_head("queries", queries), _as_one_head("keys", keys), _as_one_head("values", values)
    if temperature > 0:
        return attention(q, k, v, scale=1 / temperature)[..., 0, :, :]
    shapes.check(q, k, v)
    scores = np.einsum("...id,...jd->...ij", q, k)
    best = scores == scores.max(-1, keepdims=True, initial=-np.inf)
    weights = best / best.sum(-1, keepdims=True).clip(1)
    return np.einsum("...ij,...je->...ie", weights, v)[..., 0, :, :]


def self_attention(
    x: "Float[Array, '*b n m']",
    w_q: "Float[Array, 'm d']",
    w_k: "Float[Array, 'm d']",
    w_v: "Float[Array, 'm e']",
    **options,
) -> "Float[Array, '*b n e']":
    """Let the positions of one sequence look at each other.   Book: {eq}`self-attention`.

    Reordering the rows of x reorders the output alike, unless an option speaks of positions, as a causal mask does:
    {eq}`permutation-equivariance`. `options` are those of `attention`.
    """
    return cross_attention(x, x, w_q, w_k, w_v, **options)


def cross_attention(
    x: "Float[Array, '*b i m']",
    context: "Float[Array, '*b j c']",
    w_q: "Float[Array, 'm d']",
    w_k: "Float[Array, 'c d']",
    w_v: "Float[Array, 'c e']",
    **options,
) -> "Float[Array, '*b i e']":
    """Let x ask and `context` answer.   Book: {eq}`cross-attention`.

    `options` are those of `attention`.
    """
    q = _as_one_head("x", project("x", x, "w_q", w_q, None))
    k = _as_one_head("context", project("context", context, "w_k", w_k, None))
    v = _as_one_head("context", project("context", context, "w_v", w_v, None))
    return attention(q, k, v, **options)[..., 0, :, :]


def _as_one_head(name, x):
    """Give x the head axis that `attention` asks for."""
    x = shapes.float64(name, x)
    shapes.check_rank(name, x, ("length", "width"))
    return x[..., None, :, :]


def _check_temperature(temperature):
    if not (isinstance(temperature, int | float) and 0 <= temperature < np.inf):
        raise ValueError(f"temperature is {temperature!r}: expected a finite number of at least 0")
