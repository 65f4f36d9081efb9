"""The distance of each pair of positions, and for each query head the key head that it reads."""

import numpy as np

from mha import shapes


def distances(q_positions, k_positions) -> "Int[Array, '*b i j']":
    """Return position of the key minus position of the query."""
    q_positions, k_positions = shapes.int64("q_positions", q_positions), shapes.int64("k_positions", k_positions)
    for name, x in (("q_positions", q_positions), ("k_positions", k_positions)):
        shapes.check_rank(name, x, ("positions",))
    return k_positions[..., None, :] - q_positions[..., :, None]


def repeated(k: "Float[Array, '*b g j d']", num_heads) -> "Float[Array, '*b h j d']":
    """Give each query head its own copy of the key head that it reads."""
    k = shapes.float64("k", k)
    shapes.check_groups(num_heads, k.shape[-3])
    return np.repeat(k, num_heads // k.shape[-3], axis=-3)


def default_scale(q, scale):
    """Return the scale of the scores, 1/√d unless given: what a scheme adds is in their units."""
    return q.shape[-1] ** -0.5 if scale is None else scale
