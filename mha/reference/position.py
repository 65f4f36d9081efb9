"""Absolute positions: vectors that are added to the embeddings of the tokens, so that attention can tell an order.

Positions are integers of any shape, such as (n,), or (b, n) where each sample has its own. Vectors are rows.
"""

import numpy as np

from mha import shapes
from mha.integers import count, integer


def sinusoidal(positions: "Int[Array, '*b']", d_model, *, base=10000.0, layout="interleaved") -> "Float[Array, '*b m']":
    """Return the sine and the cosine of p · base^(−2c/d_model) for each position p and pair c.

    Pair c is in the columns (2c, 2c + 1) of the layout "interleaved" (Vaswani et al., 2017) and in (c, c + d_model/2)
    of "half", as tensor2tensor has it.   Book: {eq}`sinusoid`.
    """
    shapes.check_sinusoid(d_model, base, layout)
    positions = shapes.int64("positions", positions)
    sines, cosines = _pairs(d_model, layout)
    angles = positions[..., None] * _frequencies(d_model, base)
    encoding = np.empty((*positions.shape, d_model))
    encoding[..., sines], encoding[..., cosines] = np.sin(angles), np.cos(angles)
    return encoding


def shift_matrix(distance, d_model, *, base=10000.0, layout="interleaved") -> "Float[Array, 'm m']":
    """Return the matrix that moves the encoding of any position by a distance: it turns every pair by its own angle.

    Book: {eq}`sinusoid-shift`.
    """
    shapes.check_sinusoid(d_model, base, layout)
    sines, cosines = _pairs(d_model, layout)
    angles = integer("distance", distance) * _frequencies(d_model, base)
    matrix = np.zeros((d_model, d_model))
    matrix[sines, sines] = matrix[cosines, cosines] = np.cos(angles)
    matrix[cosines, sines], matrix[sines, cosines] = np.sin(angles), -np.sin(angles)
    return matrix


def sinusoidal_2d(
    positions: "Int[Array, '*b 2']", d_model, *, base=10000.0, layout="interleaved"
) -> "Float[Array, '*b m']":
    """Return the encoding of the row beside that of the column, each half as wide (He et al., 2022).

    `positions` are rows and columns, as from `grid_positions`.   Book: {eq}`sinusoid-2d`.
    """
    shapes.check_sinusoid(d_model, base, layout, axes=2)
    positions = shapes.int64("positions", positions)
    shapes.check_places("positions", positions)
    axes = np.moveaxis(positions, -1, 0)
    return np.concatenate([sinusoidal(axis, d_model // 2, base=base, layout=layout) for axis in axes], -1)


def grid_positions(height, width) -> "Int[Array, 'n 2']":
    """Return the row and the column of each patch of a picture, row by row."""
    return np.indices((count("height", height), count("width", width))).reshape(2, -1).T


def learned_positions(table: "Float[Array, 'rows m']", positions: "Int[Array, '*b']") -> "Float[Array, '*b m']":
    """Return the row of a table for each position, of which the table must have one.   Book: {eq}`learned-position`."""
    table, positions = shapes.float64("table", table), shapes.int64("positions", positions)
    shapes.check_rank("table", table, ("positions", "width"))
    if positions.size:
        shapes.check_in_table(positions.min(), positions.max(), len(table))
    return table[positions]


def interpolate_grid(grid: "Float[Array, 'h w m']", height, width) -> "Float[Array, 'h2 w2 m']":
    """Return a learned grid at another size: cubic along both axes, as in the ViTs of PyTorch.

    So Vision Transformers read larger pictures (Dosovitskiy et al., 2021, whose own code is linear). The numbers are
    those of torch's bicubic `interpolate`.   Book: {eq}`grid-interpolation`.
    """
    grid = shapes.float64("grid", grid)
    shapes.check_grid(grid)
    down = cubic_weights(grid.shape[0], count("height", height, least=1))
    across = cubic_weights(grid.shape[1], count("width", width, least=1))
    return np.einsum("ir,jc,rcm->ijm", down, across, grid)


def cubic_weights(size, new_size) -> "Float[Array, 'i r']":
    """Return how much of each of `size` points goes into each of `new_size`: Keys' cubic (1981) with a = −3/4.

    The centres of the outer cells stay half a cell from the edge, and the outermost points are repeated beyond it.
    """
    places = (np.arange(new_size) + 0.5) * size / new_size - 0.5
    weights = np.zeros((new_size, size))
    for offset in (-1, 0, 1, 2):
        points = np.floor(places).astype(int) + offset
        np.add.at(weights, (np.arange(new_size), points.clip(0, size - 1)), _cubic(np.abs(places - points)))
    return weights


def _cubic(x, a=-0.75):
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _frequencies(d_model, base):
    """Return the angle by which each pair turns from one position to the next."""
    return base ** (-np.arange(0, d_model, 2) / d_model)


def _pairs(d_model, layout):
    """Return the columns of the sines and those of the cosines."""
    columns = np.arange(d_model)
    return columns.reshape(2, -1) if layout == "half" else columns.reshape(-1, 2).T
