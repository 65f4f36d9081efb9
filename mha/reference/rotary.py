"""Rotary positions: turn pairs of coordinates by angles that grow with the position (Su et al., 2021)."""

import numpy as np

from mha import shapes


def rotate(
    x: "Float[Array, '*b h n d']", positions: "Int[Array, '*b n']", *, base=10000.0, layout="half"
) -> "Float[Array, '*b h n d']":
    """Turn pair m of every vector by position · base^(−2m/d), so that q·k depends on the distance alone.

    Pair m is (m, m + d/2) in layout "half" and (2m, 2m + 1) in layout "interleaved". Positions are (n,), or per
    sample (b, n).
    """
    shapes.check_rotary(x, positions, layout)
    x = shapes.float64("x", x)
    d = x.shape[-1]
    angles = np.asarray(positions)[..., None, :, None] * base ** (-2 * np.arange(d // 2) / d)
    pairs = x.reshape(*x.shape[:-1], *((2, d // 2) if layout == "half" else (d // 2, 2)))
    axis = -2 if layout == "half" else -1
    a, b = np.moveaxis(pairs, axis, 0)
    turned = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
    return np.stack(turned, axis).reshape(x.shape)
