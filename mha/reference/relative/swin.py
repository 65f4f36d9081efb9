"""Relative positions on a grid: one learned number a head for each offset of row and column (Liu et al., 2021)."""

import numpy as np

from mha import shapes


def grid_bias(
    table: "Float[Array, 'offsets h']",
    q_positions: "Int[Array, '*b i']",
    k_positions: "Int[Array, '*b j']",
    *,
    window,
) -> "Float[Array, '*b h i j']":
    """Return what each head adds to the score of each pair in a window of (rows, columns), counted row by row.

    The table has a row for each offset, query minus key: first that of the last key seen from the first query,
    (1 − rows, 1 − columns).
    """
    rows, columns = shapes.check_window(window)
    table = shapes.float64("table", table)
    shapes.check_shape("table", table, ((2 * rows - 1) * (2 * columns - 1), table.shape[-1]))
    places = []
    for name, positions in (("q_positions", q_positions), ("k_positions", k_positions)):
        positions = shapes.int64(name, positions)
        shapes.check_rank(name, positions, ("positions",))
        if positions.size:
            shapes.check_in_window(name, positions.min(), positions.max(), rows, columns)
        places.append(np.divmod(positions, columns))
    down, across = (q[..., :, None] - k[..., None, :] for q, k in zip(*places, strict=True))
    offsets = (down + rows - 1) * (2 * columns - 1) + across + columns - 1
    return np.moveaxis(table[offsets], -1, -3)
