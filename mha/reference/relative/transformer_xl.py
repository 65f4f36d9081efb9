"""Relative positions as sinusoids that queries look for, each head in its own way (Dai et al., 2019)."""

import numpy as np

from mha import shapes
from mha.reference.position import sinusoidal
from mha.reference.relative.pairs import default_scale, distances, repeated


def transformer_xl_bias(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    u: "Float[Array, 'h d']",
    v: "Float[Array, 'h d']",
    w_r: "Float[Array, 'm h·d']",
    q_positions: "Int[Array, '*b i']",
    k_positions: "Int[Array, '*b j']",
    *,
    base=10000.0,
    scale=None,
) -> "Float[Array, '*b h i j']":
    """Return scale · (u·k_j + (q_i + v)·r_{i−j}), what the scheme adds to scale · q_i·k_j.

    r is the sinusoid of the distance, query minus key, projected by `w_r`. u asks each key for what it is whatever the
    query, v asks each distance.   Book: {eq}`transformer-xl`.
    """
    q, apart = shapes.float64("q", q), -distances(q_positions, k_positions)
    shapes.check_contents(q_positions, k_positions, q, k)
    num_heads, d_head = q.shape[-3], q.shape[-1]
    w_r, u, v = shapes.float64("w_r", w_r), shapes.float64("u", u), shapes.float64("v", v)
    shapes.check_shape("u", u, (num_heads, d_head))
    shapes.check_shape("v", v, (num_heads, d_head))
    shapes.check_shape("w_r", w_r, (len(w_r), num_heads * d_head))
    r = sinusoidal(apart, len(w_r), base=base, layout="half") @ w_r
    r = r.reshape(*r.shape[:-1], num_heads, d_head)
    by_key = np.einsum("hd,...hjd->...hj", u, repeated(k, num_heads))
    by_distance = np.einsum("...hid,...ijhd->...hij", q + v[:, None], r)
    return default_scale(q, scale) * (by_key[..., None, :] + by_distance)
