"""Which tiles of the score matrix a mask fills, crosses or leaves out, without looking at every pair."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mha.integers import count
from mha.masks.walk import Grid

__all__ = ["Rows", "Tiles", "find_tiles"]


class Rows(NamedTuple):
    """Lists of tiles in one array (CSR): row r holds tiles[offsets[r] : offsets[r + 1]]."""

    offsets: np.ndarray
    tiles: np.ndarray

    def __getitem__(self, row):
        return self.tiles[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True, eq=False)
class Tiles:
    """The visible tiles of a mask. `shape` is (b | 1, h | 1, query tiles, key tiles).

    A full tile is visible at every pair and has the whole size; any other visible tile is partial. Without `refine`,
    a partial tile may turn out full or empty.
    """

    shape: tuple[int, int, int, int]
    size: tuple[int, int]
    index: np.ndarray  # of the visible tiles in an array of this shape, increasing
    is_full: np.ndarray  # whether each of them is full

    @property
    def visible(self):
        """Tell of each tile whether it may hold a visible pair: a boolean array of `shape`."""
        return self._array(self.index)

    @property
    def full(self):
        """Tell of each tile whether it is full: a boolean array of `shape`."""
        return self._array(self.index[self.is_full])

    def by_query(self):
        """Return the key tiles of each query tile, full and partial: `Rows` over (b | 1, h | 1, query tiles)."""
        *groups, num_keys = self.shape
        return self._lists(self.index // num_keys, self.index % num_keys, int(np.prod(groups)))

    def by_key(self):
        """Return the query tiles of each key tile, full and partial: `Rows` over (b | 1, h | 1, key tiles)."""
        samples, heads, num_queries, num_keys = self.shape
        line, column = np.divmod(self.index, num_keys)
        group, row = np.divmod(line, num_queries)
        return self._lists(group * num_keys + column, row, samples * heads * num_keys)

    def _array(self, index):
        array = np.zeros(self.shape, bool)
        array.reshape(-1)[index] = True
        return array

    def _lists(self, line, tile, num_lines):
        return tuple(_rows(line[kind], tile[kind], num_lines) for kind in (self.is_full, ~self.is_full))


def find_tiles(mask, n_q, n_k, *, size, q_start=None, refine=False):
    """Return the `Tiles` of a mask; with `refine`, look at the pairs of the tiles that the rule leaves open."""
    grid = Grid(mask, n_q, n_k, _checked(size), q_start)
    found = [np.empty((2, 0), np.int64)]
    for blocks, full in grid.walk():
        parts = [(blocks.split(1, grid.shape), full)] if full or not refine else _refined(grid, blocks)
        for tiles, is_full in parts:
            index = np.ravel_multi_index(tiles[:4], grid.shape)
            found.append(np.stack([index, grid.complete(tiles) & is_full]))
    index, is_full = np.concatenate(found, axis=1)
    order = np.argsort(index)
    return Tiles(grid.shape, grid.size, index[order], is_full[order].astype(bool))


def _refined(grid, blocks):
    for tiles, see in grid.see(blocks):
        some = see.any((-2, -1))
        yield tiles.where(some), see.all((-2, -1))[some]


def _checked(size):
    if not isinstance(size, tuple) or len(size) != 2:
        raise TypeError(f"size is {size!r}: expected (query rows, key columns) of a tile")
    return count("size[0]", size[0], least=1), count("size[1]", size[1], least=1)


def _rows(line, tile, num_lines):
    order = np.argsort(line, kind="stable")
    offsets = np.zeros(num_lines + 1, np.int32)
    np.cumsum(np.bincount(line, minlength=num_lines), out=offsets[1:])
    return Rows(offsets, tile[order].astype(np.int32))
