"""Masks over a picture: slot i is the patch in row i // columns and column i % columns of a grid."""

from dataclasses import dataclass

from mha.integers import count
from mha.masks.base import Mask
from mha.text import say

__all__ = ["shifted_window2d", "window2d"]


class OnGrid(Mask):
    """A mask whose positions are the patches of a grid, row by row."""

    def place(self, position):
        """Return the row and the column of a position."""
        return divmod(position, self.columns)

    def numbers(self, seen, b, h, i, j):
        outside = [position for position in (i, j) if not 0 <= position < self.rows * self.columns]
        if outside:
            return say("masks.explain.outside", position=outside[0], rows=self.rows, columns=self.columns)
        return self.on_grid(seen, self.place(i), self.place(j))

    def on_grid(self, seen, query, key):
        """Return what decides, of two places on the grid."""
        raise NotImplementedError

    def check(self, n_q, n_k, batch=1, num_heads=1):
        size = self.rows * self.columns
        for name, number in (("queries", n_q), ("keys", n_k)):
            if number > size:
                raise ValueError(
                    f"mask: {self!r} has {self.rows} × {self.columns} = {size} patches and there are {number} {name}"
                )


@dataclass(frozen=True, eq=False, repr=False)
class Window2d(OnGrid):
    rows: int
    columns: int
    row_radius: int
    column_radius: int

    @staticmethod
    def rule(at, b, h, i, j, size, columns, row_radius, column_radius):
        down, across = i // columns - j // columns, i % columns - j % columns
        near = (down <= row_radius) & (-down <= row_radius) & (across <= column_radius) & (-across <= column_radius)
        return (i >= 0) & (j >= 0) & (i < size) & (j < size) & near

    def params(self):
        return self.rows * self.columns, self.columns, self.row_radius, self.column_radius

    def on_grid(self, seen, query, key):
        by_rows = abs(query[0] - key[0]), self.row_radius
        by_columns = abs(query[1] - key[1]), self.column_radius
        texts = [
            say(f"masks.explain.{name}", distance=distance, sign="≤" if distance <= radius else ">", radius=radius)
            for name, (distance, radius) in (("rows_apart", by_rows), ("columns_apart", by_columns))
            if seen or distance > radius
        ]
        return ", ".join(texts)

    def __repr__(self):
        return f"window2d(({self.rows}, {self.columns}), {_pair_text(self.row_radius, self.column_radius)})"


@dataclass(frozen=True, eq=False, repr=False)
class ShiftedWindow2d(OnGrid):
    rows: int
    columns: int
    height: int
    width: int
    down: int
    across: int

    @staticmethod
    def rule(at, b, h, i, j, size, columns, height, width, above, before):
        # The first cut leaves a smaller window at each edge: those that a cyclic shift joins, and its mask parts again.
        same_rows = (i // columns + above) // height == (j // columns + above) // height
        same_columns = (i % columns + before) // width == (j % columns + before) // width
        return (i >= 0) & (j >= 0) & (i < size) & (j < size) & same_rows & same_columns

    def params(self):
        return self.rows * self.columns, self.columns, self.height, self.width, *self._missing()

    def _missing(self):
        """Return how many rows and columns the first window lacks."""
        return -self.down % self.height, -self.across % self.width

    def on_grid(self, seen, query, key):
        above, before = self._missing()
        query, key = (((row + above) // self.height, (column + before) // self.width) for row, column in (query, key))
        if seen:
            return say("masks.explain.same_window", window=query)
        return say("masks.explain.other_window", query=query, key=key)

    def __repr__(self):
        window, shift = _pair_text(self.height, self.width), _pair_text(self.down, self.across)
        return f"shifted_window2d(({self.rows}, {self.columns}), {window}, {shift})"


def window2d(grid, radius):
    """See the patches at most `radius` rows and `radius` columns away, on a grid of (rows, columns).

    `radius` is an integer or a pair. A window of r × r patches with the query in its middle has radius r // 2.
    """
    return Window2d(*_pair("grid", grid, least=1, one=False), *_pair("radius", radius))


def shifted_window2d(grid, window, shift=0):
    """See the patches of one's own window: the grid is cut into windows, the cuts moved by `shift` down and across.

    Without a shift and with one of half a window, by turns, these are the layers of Swin (Liu et al., 2021): what its
    cyclic shift with a mask computes. `window` and `shift` are integers or pairs.
    """
    window, shift = _pair("window", window, least=1), _pair("shift", shift)
    if shift[0] >= window[0] or shift[1] >= window[1]:
        raise ValueError(f"shift is {shift} and window is {window}: expected a shift below the window")
    return ShiftedWindow2d(*_pair("grid", grid, least=1, one=False), *window, *shift)


def _pair(name, value, least=0, one=True):
    """Return (rows, columns); one integer stands for both, where `one` may."""
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(f"{name} has {len(value)} entries: expected (rows, columns)")
        return tuple(count(f"{name}[{axis}]", part, least) for axis, part in enumerate(value))
    if not one:
        raise TypeError(f"{name} is {value!r}: expected (rows, columns)")
    value = count(name, value, least)
    return value, value


def _pair_text(one, two):
    return str(one) if one == two else str((one, two))
