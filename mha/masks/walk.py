"""A walk over the score matrix that looks at large blocks first, and splits only those that the rule leaves open.

The rule runs on spans (`mha.masks.spans`): it says of a whole block whether some pair is visible, and whether all
are. So a band costs as much as it is long, and a triangle as much as its edge.
"""

from typing import NamedTuple

import numpy as np

from mha.integers import count
from mha.masks.arrays import in_numpy
from mha.masks.evaluate import query_start
from mha.masks.rectangles import on_spans
from mha.masks.spans import Span

__all__ = ["Blocks", "Grid"]

BLOCKS_AT_ONCE = 2**14
PAIRS_AT_ONCE = 2**18


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
        self.start = np.reshape(in_numpy(start), -1)
        self.mask = mask.placed(start).on_tables(in_numpy)
        groups = self._told_apart(samples, heads)
        self.shape = *groups, -(-self.n_q // size[0]), -(-self.n_k // size[1])
        self.rule = on_spans(self.mask, size, self.start)

    def walk(self):
        """Yield blocks that are full of visible pairs, and single tiles that the rule leaves open: (blocks, full)."""
        stack = [self._coarsest()]
        while stack:
            blocks = stack.pop()
            if not all(x.size for x in blocks[:4]):
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

    def _told_apart(self, samples, heads):
        """Return how many samples and heads differ, as `Mask.dense` does: a picture of no pairs has the same axes."""
        b, h, i, j = np.ix_(range(samples), range(heads), (), ())
        see = self.mask(b, h, self._first(b) + i.astype(int), j.astype(int))
        return see.shape[:2] if see.ndim == 4 else (1, 1)

    def _coarsest(self):
        samples, heads, rows, columns = self.shape
        scale = 1
        while (
            scale < max(rows, columns) and samples * heads * -(-rows // scale) * -(-columns // scale) > BLOCKS_AT_ONCE
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
