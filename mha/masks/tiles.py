"""Which tiles of the score matrix a mask fills, crosses or leaves out, without looking at every pair.

The rule runs on spans (`mha.masks.spans`). It starts with large blocks of tiles and splits only those that it can
neither fill nor leave out, so a band costs as much as it is long. The same walk counts pairs and finds empty rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mha.integers import count
from mha.masks.evaluate import query_start
from mha.masks.slots import Dense
from mha.masks.spans import Span, Table, Truth

__all__ = ["Rows", "Tiles", "count_pairs", "find_empty_rows", "find_tiles"]

BLOCKS_AT_ONCE = 2**14
PAIRS_AT_ONCE = 2**18
FINE = 16, 16  # tiles for counting: the pairs of a crossed tile are looked at one by one


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


class Blocks(NamedTuple):
    """Squares of scale × scale tiles: their samples, heads and first tiles, as arrays that broadcast."""

    b: np.ndarray
    h: np.ndarray
    row: np.ndarray
    column: np.ndarray
    scale: int

    def where(self, condition):
        """Return those for which a condition holds, one after the other."""
        *starts, condition = np.broadcast_arrays(*self[:4], condition)
        chosen = np.nonzero(condition)
        return Blocks(*(start[chosen] for start in starts), self.scale)

    def split(self, scale, shape):
        """Return the blocks of a smaller scale that these consist of."""
        steps = np.arange(0, self.scale, scale)
        b, h, row, column = (x[:, None, None] for x in self[:4])
        parts = Blocks(b, h, row + steps[:, None], column + steps, scale)
        return parts.where((parts.row < shape[2]) & (parts.column < shape[3]))

    def chunks(self, length):
        """Yield them in parts of at most this length."""
        for start in range(0, len(self.b), length):
            yield Blocks(*(x[start : start + length] for x in self[:4]), self.scale)


class Grid:
    """The score matrix of one mask cut into tiles."""

    def __init__(self, mask, n_q, n_k, size, q_start=None):
        self.n_q, self.n_k, self.size = count("n_q", n_q), count("n_k", n_k), size
        start = query_start(mask, self.n_q, self.n_k, q_start)
        samples, heads = mask._sizes_from(start)
        mask.check(self.n_q, self.n_k, samples, heads)
        self.shape = samples, heads, -(-self.n_q // size[0]), -(-self.n_k // size[1])
        self.start = np.reshape(np.asarray(start.cpu() if hasattr(start, "cpu") else start), -1)
        self.mask = mask.placed(start).on_tables(lambda x: x.cpu().numpy() if hasattr(x, "cpu") else np.asarray(x))
        self.rule = _on_spans(self.mask, size, self.start)

    def walk(self):
        """Yield blocks that are full of visible pairs, and single tiles that the rule leaves open: (blocks, full)."""
        stack = [self._coarsest()]
        while stack:
            blocks = stack.pop()
            if not all(len(x) for x in blocks[:4]):
                continue
            truth = self._truth(blocks)
            yield blocks.where(truth.all), True
            rest = blocks.where(truth.some & ~truth.all)
            if blocks.scale == 1:
                yield rest, False
            else:
                stack.extend(rest.split(blocks.scale // 2, self.shape).chunks(BLOCKS_AT_ONCE))

    def slots(self, blocks):
        """Return the first and the last query slot, and the first and the last key slot, of each block."""
        (bm, bn), scale = self.size, blocks.scale
        return (
            (blocks.row * bm, np.minimum((blocks.row + scale) * bm, self.n_q) - 1),
            (blocks.column * bn, np.minimum((blocks.column + scale) * bn, self.n_k) - 1),
        )

    def complete(self, tiles):
        """Tell of single tiles whether they have the whole size."""
        bm, bn = self.size
        return ((tiles.row + 1) * bm <= self.n_q) & ((tiles.column + 1) * bn <= self.n_k)

    def inside(self, tiles):
        """Tell of the pairs of single tiles which are in the score matrix: (tile, i, j)."""
        row, column = (x[:, None, None] for x in (tiles.row, tiles.column))
        i, j = np.arange(self.size[0])[:, None], np.arange(self.size[1])
        return (row * len(i) + i < self.n_q) & (column * len(j) + j < self.n_k)

    def see(self, tiles):
        """Yield parts of these tiles and their pairs (tile, i, j); beyond an edge the last row or column repeats."""
        i, j = np.arange(self.size[0])[:, None], np.arange(self.size[1])
        for part in tiles.chunks(max(1, PAIRS_AT_ONCE // (len(i) * len(j)))):
            b, h, row, column = (x[:, None, None] for x in part[:4])
            query = np.minimum(row * len(i) + i, self.n_q - 1)
            key = np.minimum(column * len(j) + j, self.n_k - 1)
            see = self.mask(b, h, self._first(b) + query, key)
            yield part, np.broadcast_to(see, (len(part.b), len(i), len(j)))

    def _coarsest(self):
        samples, heads, rows, columns = self.shape
        scale = 1
        while samples * heads * -(-rows // scale) * -(-columns // scale) > BLOCKS_AT_ONCE and scale < max(
            rows, columns
        ):
            scale *= 2
        axes = (np.arange(samples), np.arange(heads), np.arange(0, rows, scale), np.arange(0, columns, scale))
        return Blocks(*np.ix_(*axes), scale)

    def _truth(self, blocks):
        (row, last_row), (column, last_column) = self.slots(blocks)
        first = self._first(blocks.b)
        b, h = Span(blocks.b, blocks.b), Span(blocks.h, blocks.h)
        return self.rule(b, h, Span(first + row, first + last_row), Span(column, last_column))

    def _first(self, b):
        return self.start[0] if len(self.start) == 1 else self.start[b]


class TileTable:
    """The table of a dense mask as a rule on spans: sums count the tiles of a block that show some pair, or all."""

    def __init__(self, mask, size, start):
        self.size, self.start = size, start
        self.some = _sums(_by_tile(np.logical_or, mask.table, size))
        self.all = _sums(_by_tile(np.logical_and, mask.table, size))

    def __call__(self, b, h, i, j):
        first = self.start[b.lo] if len(self.start) > 1 else self.start[0]
        rows = [(i.lo - first) // self.size[0], (i.hi - first) // self.size[0] + 1]  # the table goes by slot
        columns = [j.lo // self.size[1], j.hi // self.size[1] + 1]
        samples, heads, row_edges, column_edges = self.some.shape
        b, h = 0 if samples == 1 else b.lo, 0 if heads == 1 else h.lo
        rows, columns = [0, 1] if row_edges == 2 else rows, [0, 1] if column_edges == 2 else columns
        area = (rows[1] - rows[0]) * (columns[1] - columns[0])
        return Truth(_inside(self.some, b, h, rows, columns) > 0, _inside(self.all, b, h, rows, columns) == area)


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


def count_pairs(mask, n_q, n_k, q_start=None):
    """Return how many pairs of `mask.dense(n_q, n_k, q_start)` are visible: whole blocks by their area."""
    grid = Grid(mask, n_q, n_k, FINE, q_start)
    total = 0
    for blocks, full in grid.walk():
        if full:
            (row, last_row), (column, last_column) = grid.slots(blocks)
            total += int(((last_row - row + 1) * (last_column - column + 1)).sum())
        else:
            total += sum(int((see & grid.inside(tiles)).sum()) for tiles, see in grid.see(blocks))
    return total


def find_empty_rows(mask, n_q, n_k, q_start=None):
    """Return the indices of the rows that see no key: (number, 1), or (number, 3) for b, h, i."""
    grid = Grid(mask, n_q, n_k, FINE, q_start)
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
            row = np.minimum(tiles.row[tile] * FINE[0] + i, grid.n_q - 1)
            seen[tiles.b[tile], tiles.h[tile], row] = True
    seen |= changes.cumsum(-1)[..., :-1] > 0
    return np.argwhere(~seen[0, 0] if (samples, heads) == (1, 1) else ~seen)


def _refined(grid, blocks):
    for tiles, see in grid.see(blocks):
        some = see.any((-2, -1))
        yield tiles.where(some), see.all((-2, -1))[some]


def _checked(size):
    if not isinstance(size, tuple) or len(size) != 2:
        raise TypeError(f"size is {size!r}: expected (query rows, key columns) of a tile")
    return count("size[0]", size[0], least=1), count("size[1]", size[1], least=1)


def _on_spans(mask, size, start):
    """Return the mask's rule with tables that spans can read."""
    if isinstance(mask, Dense):
        return TileTable(mask, size, start)
    return mask._rebuild(lambda part: _on_spans(part, size, start), Table)


def _by_tile(operator, table, size):
    """Reduce the last two axes of a table tile by tile."""
    for axis, step in zip((2, 3), size, strict=True):
        table = operator.reduceat(table, np.arange(0, table.shape[axis], step), axis) if table.size else table
    return table


def _sums(table):
    """Return the sums of a table's entries before each row and column: one row and one column of zeros more."""
    sums = np.zeros((*table.shape[:2], table.shape[2] + 1, table.shape[3] + 1), np.int64)
    sums[:, :, 1:, 1:] = table.cumsum(2).cumsum(3)
    return sums


def _inside(sums, b, h, rows, columns):
    (top, bottom), (left, right) = rows, columns
    return sums[b, h, bottom, right] - sums[b, h, top, right] - sums[b, h, bottom, left] + sums[b, h, top, left]


def _rows(line, tile, num_lines):
    order = np.argsort(line, kind="stable")
    offsets = np.zeros(num_lines + 1, np.int32)
    np.cumsum(np.bincount(line, minlength=num_lines), out=offsets[1:])
    return Rows(offsets, tile[order].astype(np.int32))
