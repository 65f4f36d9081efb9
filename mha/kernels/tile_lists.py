"""The tiles that a mask shows, as the lists that a kernel walks: the key tiles of each query tile, or the reverse.

One int32 table holds, for each line (b | 1, h | 1, tile), a record of four numbers, and behind all records the tiles:

    tile, begin, middle, end     full tiles are table[begin:middle], partial ones table[middle:end]

Tiles come in one order for all samples and heads, longest lists first, so that the last programs of a launch are short.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

__all__ = ["NO_LISTS", "Lists", "lists_of"]


class Lists(NamedTuple):
    """A table of tile lists on a device. The record of the tile in place r begins at 4 · (b·line_b + h·line_h + r)."""

    table: Any  # int32
    line_b: int  # lines from one sample to the next, 0 where the mask does not tell samples apart
    line_h: int
    in_runs: bool  # whether the full tiles of every line follow one another: they can be counted instead of read

    def arguments(self):
        """Return what a launch passes on."""
        return self.table, self.line_b, self.line_h


NO_LISTS = Lists(None, 0, 0, in_runs=True)  # of a call without a mask: every tile is visited


def lists_of(tiles, device, *, by_key=False):
    """Return the `Lists` of `mha.masks.tiles.Tiles`: the key tiles of each query tile, or with `by_key` the reverse."""
    full, partial = tiles.by_key() if by_key else tiles.by_query()
    samples, heads, num_queries, num_keys = tiles.shape
    num_tiles = num_keys if by_key else num_queries
    table = torch.from_numpy(_table(full, partial, samples * heads, num_tiles)).to(device)
    line_h = num_tiles if heads > 1 else 0
    return Lists(table, num_tiles * heads if samples > 1 else 0, line_h, _in_runs(full))


def _table(full, partial, groups, num_tiles):
    lines = groups * num_tiles
    lengths = np.stack([np.diff(rows.offsets) for rows in (full, partial)])  # (full | partial, line)
    begin = 4 * lines + np.concatenate([[0], np.cumsum(lengths.sum(0), dtype=np.int64)])
    middle = begin[:-1] + lengths[0]
    tile = np.arange(lines) % max(num_tiles, 1)
    records = np.stack([tile, begin[:-1], middle, begin[1:]], axis=-1).reshape(groups, num_tiles, 4)
    order = np.argsort(-lengths.sum(0).reshape(groups, num_tiles).sum(0), kind="stable")
    table = np.empty(begin[-1], np.int32)
    table[: 4 * lines] = records[:, order].reshape(-1)
    for rows, first, length in zip((full, partial), (begin[:-1], middle), lengths, strict=True):
        table[np.repeat(first - rows.offsets[:-1], length) + np.arange(len(rows.tiles))] = rows.tiles
    return table


def _in_runs(rows):
    """Tell whether each line's tiles follow one another."""
    follows = np.diff(rows.tiles) == 1
    starts = rows.offsets[1:-1]
    starts = starts[(starts > 0) & (starts < len(rows.tiles))]
    follows[starts - 1] = True  # from one line to the next they need not
    return bool(follows.all())
