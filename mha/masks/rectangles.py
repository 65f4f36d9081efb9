"""Masks as rules on spans; a table of two sides answers for a rectangle by sums over all before each corner."""

import numpy as np

from mha.masks.blocks import RandomBlocks
from mha.masks.listed import InBlocks
from mha.masks.slots import Dense
from mha.masks.spans import Table, Truth

__all__ = ["on_spans"]


def on_spans(mask, size, start):
    """Return the rule of a placed mask with tables that spans can read; spans of slots begin and end with tiles."""
    if isinstance(mask, Dense):
        return _DenseByTile(mask, size, start)
    if isinstance(mask, RandomBlocks):
        return _Drawn(mask)
    if isinstance(mask, InBlocks):
        return _Listed(mask, start)
    return mask._rebuild(lambda part: on_spans(part, size, start), Table)


class _Rectangles:
    """How many entries of a table (b | 1, h | 1, row, column) are true, in any rectangle of rows and columns."""

    def __init__(self, table):
        self.sums = np.zeros((*table.shape[:2], table.shape[2] + 1, table.shape[3] + 1), np.int64)
        self.sums[:, :, 1:, 1:] = table.cumsum(2).cumsum(3)

    def truth(self, b, h, rows, columns):
        """Return whether some entry is true, and whether all are; an axis of size 1 tells nothing apart."""
        samples, heads, *edges = self.sums.shape
        b, h = 0 if samples == 1 else b.lo, 0 if heads == 1 else h.lo
        top, left = (0 if n == 2 else span.lo for n, span in zip(edges, (rows, columns), strict=True))
        bottom, right = (1 if n == 2 else span.hi + 1 for n, span in zip(edges, (rows, columns), strict=True))
        above = self.sums[b, h, top, right] - self.sums[b, h, top, left]
        total = self.sums[b, h, bottom, right] - self.sums[b, h, bottom, left] - above
        return Truth(total > 0, total == (bottom - top) * (right - left))


class _DenseByTile:
    """The table of a dense mask, reduced tile by tile to whether some pair is visible and whether all are."""

    def __init__(self, mask, size, start):
        self.size, self.start = size, start
        self.some, self.all = (_Rectangles(_by_tile(f, mask.table, size)) for f in (np.logical_or, np.logical_and))

    def __call__(self, b, h, i, j):
        first = self.start[b.lo] if len(self.start) > 1 else self.start[0]
        rows, columns = (i - first) // self.size[0], j // self.size[1]
        some, every = (table.truth(b, h, rows, columns) for table in (self.some, self.all))
        return Truth(some.some, every.all)


class _Drawn:
    """Blocks drawn at random: the rule of `RandomBlocks` reads one entry of a square; a span reads a rectangle."""

    def __init__(self, mask):
        drawn, self.block, per_side, self.period = mask.params()
        self.table = _Rectangles(drawn.reshape(1, 1, per_side, per_side))

    def __call__(self, b, h, i, j):
        rows, columns = (((x % self.period + self.period) % self.period) // self.block for x in (i, j))
        return self.table.truth(b, h, rows, columns)


class _Listed:
    """Blocks that a table lists: the rule of `InBlocks` reads one entry; a span reads a rectangle."""

    def __init__(self, mask, start):
        self.size, self.start, self.table = mask.size, start, _Rectangles(mask.table)

    def __call__(self, b, h, i, j):
        first = self.start[b.lo] if len(self.start) > 1 else self.start[0]
        return self.table.truth(b, h, (i - first) // self.size[0], j // self.size[1])


def _by_tile(operator, table, size):
    """Reduce the last two axes of a table tile by tile."""
    for axis, step in zip((2, 3), size, strict=True):
        table = operator.reduceat(table, np.arange(0, table.shape[axis], step), axis) if table.size else table
    return table
