"""Intervals of integers, so that one run of a mask's rule answers for a whole block of pairs.

Run on spans, a rule answers with a `Truth`: whether it is true somewhere in the block, and whether everywhere. The
answer is safe: `some` may be a false alarm, `all` never is, nor is `not some`.
"""

from typing import Any

import numpy as np

__all__ = ["Span", "Table", "Truth"]


class Span:
    """Every integer from `lo` to `hi`, both inclusive; integers or arrays of them."""

    __array_ufunc__ = None  # so that `array + span` asks the span

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    def __add__(self, other):
        other = _span(other)
        return Span(self.lo + other.lo, self.hi + other.hi)

    def __neg__(self):
        return Span(-self.hi, -self.lo)

    def __sub__(self, other):
        return self + -_span(other)

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        return _extremes(np.multiply, self, _span(other))

    def __floordiv__(self, other):
        return _extremes(np.floor_divide, self, _span(other))  # of a divisor above 0

    def __mod__(self, other):
        other = _span(other)
        lo, hi = self.lo % other.hi, self.hi % other.hi
        wraps = (other.lo != other.hi) | (self.hi - self.lo >= other.hi) | (lo > hi)
        return Span(np.where(wraps, 0, lo), np.where(wraps, other.hi - 1, hi))

    def __and__(self, other):
        """Bits that all of both spans have on top stay on: that is how x & (x − 1) knows a power of two."""
        one, two = self, _span(other)
        same = (one.lo == one.hi) & (two.lo == two.hi)
        tops = [np.frexp(np.maximum(x, 0))[1].astype(np.int64) for x in (one.lo, one.hi, two.lo, two.hi)]
        shared = np.where((np.minimum.reduce(tops) == np.maximum.reduce(tops)) & (tops[0] > 0), 1 << tops[0] >> 1, 0)
        lo = np.where((one.lo >= 0) | (two.lo >= 0), shared, -(2**62))
        hi = np.maximum(one.hi, two.hi)
        return Span(np.where(same, one.lo & two.lo, lo), np.where(same, one.lo & two.lo, hi))

    __radd__, __rmul__, __rand__ = __add__, __mul__, __and__

    def __le__(self, other):
        other = _span(other)
        return Truth(self.lo <= other.hi, self.hi <= other.lo)

    def __lt__(self, other):
        other = _span(other)
        return Truth(self.lo < other.hi, self.hi < other.lo)

    def __ge__(self, other):
        return _span(other) <= self

    def __gt__(self, other):
        return _span(other) < self

    def __eq__(self, other) -> Any:
        return (self <= other) & (self >= other)

    def __ne__(self, other) -> Any:
        return ~(self == other)


class Truth:
    """What is known of a condition in a block: `some`, it may hold for a pair; `all`, it holds for every pair."""

    __array_ufunc__ = None

    def __init__(self, some, all):
        self.some, self.all = some, all

    def __and__(self, other):
        other = _truth(other)
        return Truth(self.some & other.some, self.all & other.all)

    def __or__(self, other):
        other = _truth(other)
        return Truth(self.some | other.some, self.all | other.all)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self):
        return Truth(np.logical_not(self.all), np.logical_not(self.some))


class Table:
    """A flat array that is read by the span: `table[span]` is the span, or the truth, of its entries there."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self._runs = [(self.values, self.values)]  # level k: the extremes of the 2**k entries from each index on

        self.shape = self.values.shape

    def __len__(self):
        return len(self.values)

    def __getitem__(self, where):
        where, last = _span(where), len(self.values) - 1
        # A span of a sum is wider than the sum's values if both parts move together: it may leave the table.
        lo, hi = np.broadcast_arrays(np.clip(where.lo, 0, last), np.clip(where.hi, 0, last))
        least, most = np.empty(lo.shape, self.values.dtype), np.empty(lo.shape, self.values.dtype)
        levels = np.frexp(hi - lo + 1)[1] - 1
        for level in np.unique(levels):
            low, high = self._level(level)
            here = levels == level
            first, second = lo[here], hi[here] - (1 << level) + 1  # two runs that cover lo to hi
            least[here] = np.minimum(low[first], low[second])
            most[here] = np.maximum(high[first], high[second])
        return Truth(most, least) if self.values.dtype == bool else Span(least, most)

    def _level(self, level):
        while len(self._runs) <= level:
            (low, high), half = self._runs[-1], 1 << (len(self._runs) - 1)
            self._runs.append((np.minimum(low[:-half], low[half:]), np.maximum(high[:-half], high[half:])))
        return self._runs[level]


def _span(x):
    return x if isinstance(x, Span) else Span(x, x)


def _truth(x):
    return x if isinstance(x, Truth) else Truth(x, x)


def _extremes(operator, one, two):
    ends = [operator(a, b) for a in (one.lo, one.hi) for b in (two.lo, two.hi)]
    return Span(np.minimum.reduce(np.broadcast_arrays(*ends)), np.maximum.reduce(np.broadcast_arrays(*ends)))
