"""Visible pairs and empty rows of a mask, counted by the block: no array of all pairs is made."""

import numpy as np

from mha.masks.walk import Grid

__all__ = ["any_visible", "count_pairs", "find_empty_rows"]

TILE = 16, 16  # the pairs of a tile that the mask crosses are looked at one by one


def count_pairs(mask, n_q, n_k, q_start=None):
    """Return how many pairs of `mask.dense(n_q, n_k, q_start)` are visible: whole blocks by their area."""
    grid = Grid(mask, n_q, n_k, TILE, q_start)
    total = 0
    for blocks, full in grid.walk():
        if full:
            (row, last_row), (column, last_column) = grid.slots(blocks)
            total += int(((last_row - row + 1) * (last_column - column + 1)).sum())
        else:
            total += sum(int((see & grid.inside(tiles)).sum()) for tiles, see in grid.see(blocks))
    return total


def any_visible(mask, n_q, n_k, q_start=None):
    """Tell whether some pair is visible; the walk ends at the first."""
    grid = Grid(mask, n_q, n_k, TILE, q_start)
    return any(len(blocks.b) if full else any(see.any() for _, see in grid.see(blocks)) for blocks, full in grid.walk())


def find_empty_rows(mask, n_q, n_k, q_start=None):
    """Return the indices of the rows that see no key: (number, 1), or (number, 3) for b, h, i."""
    grid = Grid(mask, n_q, n_k, TILE, q_start)
    samples, heads = grid.shape[:2]
    changes = np.zeros((samples, heads, grid.n_q + 1), np.int64)  # of the number of full blocks, from row to row
    seen = np.zeros((samples, heads, grid.n_q), bool)
    for blocks, full in grid.walk():
        if full:
            (row, last_row), _ = grid.slots(blocks)
            np.add.at(changes, (blocks.b, blocks.h, row), 1)
            np.add.at(changes, (blocks.b, blocks.h, last_row + 1), -1)
            continue
        for tiles, see in grid.see(blocks):
            tile, i = np.nonzero(see.any(-1))
            row = np.minimum(tiles.row[tile] * TILE[0] + i, grid.n_q - 1)
            seen[tiles.b[tile], tiles.h[tile], row] = True
    seen |= changes.cumsum(-1)[..., :-1] > 0
    return np.argwhere(~seen[0, 0] if (samples, heads) == (1, 1) else ~seen)
