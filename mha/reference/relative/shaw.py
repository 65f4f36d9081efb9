"""Relative positions as vectors, one for each distance up to a limit (Shaw et al., 2018).

The paper adds the vector to the key. (x + a)·q = x·q + a·q, so it is a bias on the scores, made of the query. On the
side of the values it is not.
"""

import numpy as np

from mha import shapes
from mha.reference.relative.pairs import default_scale, distances


def shaw_bias(
    q: "Float[Array, '*b h i d']",
    table: "Float[Array, 'r d']",
    q_positions: "Int[Array, '*b i']",
    k_positions: "Int[Array, '*b j']",
    *,
    scale=None,
) -> "Float[Array, '*b h i j']":
    """Return scale · q·a, where a is the row of the table for the distance of the pair.

    The 2K + 1 rows are for the distances −K to K, key minus query, and the outermost for all beyond them too.

    Book: {eq}`shaw`.
    """
    q = shapes.float64("q", q)
    vectors = rows_by_distance(table, q_positions, k_positions)
    shapes.check_shape("table", table, (len(table), q.shape[-1]))
    shapes.check_contents(q_positions, k_positions, q)
    return default_scale(q, scale) * np.einsum("...hid,...ijd->...hij", q, vectors)


def shaw_values(
    weights: "Float[Array, '*b h i j']",
    table: "Float[Array, 'r e']",
    q_positions: "Int[Array, '*b i']",
    k_positions: "Int[Array, '*b j']",
) -> "Float[Array, '*b h i e']":
    """Return what the vectors of distances on the values' side add to the output: their mixture by the weights."""
    weights = shapes.float64("weights", weights)
    return np.einsum("...hij,...ije->...hie", weights, rows_by_distance(table, q_positions, k_positions))


def rows_by_distance(table, q_positions, k_positions) -> "Float[Array, '*b i j d']":
    """Return the row of each pair."""
    table = shapes.float64("table", table)
    shapes.check_distances("table", table)
    limit = len(table) // 2
    return table[distances(q_positions, k_positions).clip(-limit, limit) + limit]
