"""Rotary positions: turn pairs of coordinates by angles that grow with the position (Su et al., 2021)."""

import numpy as np

from mha import shapes
from mha.integers import count, integer
from mha.reference.rotary.frequencies import rotary_frequencies


def rotate(
    x: "Float[Array, '*b h n d']", positions: "Int[Array, '*b n']", *, base=10000.0, layout="half", width=None
) -> "Float[Array, '*b h n d']":
    """Turn pair m of every vector by position · base^(−2m/width), so that q·k depends on the distance alone.

    Pair m is (m, m + width/2) in layout "half" and (2m, 2m + 1) in layout "interleaved". The first `width`
    coordinates turn, by default all. Positions are (n,), or per sample (b, n).   Book: {eq}`rotary`
    """
    shapes.check_rotary(x, positions, layout, width)
    frequencies = rotary_frequencies(x.shape[-1] if width is None else width, base)
    return rotate_by(x, positions, frequencies, layout=layout, width=width)


def rotate_by(
    x: "Float[Array, '*b h n d']",
    positions: "Int[Array, '*b n']",
    frequencies: "Float[Array, ' m']",
    *,
    layout="half",
    width=None,
    gain=1.0,
) -> "Float[Array, '*b h n d']":
    """Turn pair m of every vector by position · frequency m, and stretch what turns by `gain`; else as `rotate`.

    Frequencies of their own, such as those of YaRN, are one for each pair of the first `width` coordinates.
    """
    shapes.check_rotary(x, positions, layout, width)
    x, frequencies = shapes.float64("x", x), shapes.float64("frequencies", frequencies)
    width = x.shape[-1] if width is None else integer("width", width)
    shapes.check_frequencies(frequencies, width)
    shapes.check_positive(gain=gain)
    x, rest = x[..., :width], x[..., width:]
    angles = np.asarray(positions)[..., None, :, None] * frequencies
    pairs = x.reshape(*x.shape[:-1], *((2, width // 2) if layout == "half" else (width // 2, 2)))
    axis = -2 if layout == "half" else -1
    a, b = np.moveaxis(pairs, axis, 0)
    turned = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
    return np.concatenate((gain * np.stack(turned, axis).reshape(x.shape), rest), axis=-1)


def rotary_score(
    q: "Float[Array, ' d']", k: "Float[Array, ' d']", distances: "Int[Array, ' n']", *, base=10000.0
) -> "Float[Array, ' n']":
    """Return q·k of a query that stands so many positions behind the key, without turning either; layout "half".

    Each pair is a complex number, and gives the real part of q · conj(k) · e^{i · distance · frequency}.
    Book: {eq}`rotary-shift`
    """
    q, k, distances = shapes.float64("q", q), shapes.float64("k", k), shapes.int64("distances", distances)
    shapes.check_turned(len(q))
    shapes.check_shape("q", q, (len(q),))
    shapes.check_shape("k", k, q.shape)
    half = len(q) // 2
    product = (q[:half] + 1j * q[half:]) * np.conj(k[:half] + 1j * k[half:])
    return (product * np.exp(1j * distances[:, None] * rotary_frequencies(len(q), base))).real.sum(-1)


def interleaved_order(num_heads, d_head, *, width=None) -> "Int[Array, ' m']":
    """Return where each coordinate of layout "interleaved" stands in layout "half", heads side by side.

    `weight[:, order]` moves the columns of a projection of queries or keys (the rows of a `torch.nn.Linear`), and
    `np.argsort(order)` moves them back. The pairs are those of the first `width` coordinates of a head.
    """
    width = d_head if width is None else width
    num_heads = count("num_heads", num_heads, least=1)
    shapes.check_turned(width, d_head)
    order = np.arange(num_heads * d_head).reshape(num_heads, d_head)
    pairs = order[:, :width].reshape(num_heads, 2, width // 2)
    return np.concatenate((pairs.swapaxes(1, 2).reshape(num_heads, width), order[:, width:]), axis=1).reshape(-1)
