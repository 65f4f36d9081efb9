"""Masks that look at the distance from the query to the key alone: bands, strides and powers of two."""

from dataclasses import dataclass

from mha.integers import count
from mha.masks.base import Mask
from mha.text import say

__all__ = ["causal", "dilated", "log_strided", "strided", "window", "window_of"]


class Distance(Mask):
    """A mask whose rule reads i − j alone."""

    goes_by_distance = True


class Value(Distance):
    """One without numbers of its own: it is there, and no call makes it."""

    def __call__(self, *where):
        if not where:
            raise TypeError(f"{self!r} is a mask already: expected masks.{self!r} without ()")
        return super().__call__(*where)


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Value):
    @staticmethod
    def rule(at, b, h, i, j):
        return j <= i

    def numbers(self, seen, b, h, i, j):
        return f"{j} ≤ {i}" if seen else f"{j} > {i}"

    def __repr__(self):
        return "causal"


@dataclass(frozen=True, eq=False, repr=False)
class Window(Distance):
    left: int
    right: int

    @staticmethod
    def rule(at, b, h, i, j, left, right):
        return (i - j <= left) & (j - i <= right)

    def numbers(self, seen, b, h, i, j):
        late, early, bound = (i, j, self.left) if j <= i else (j, i, self.right)
        return f"{late} − {early} = {late - early} {'≤' if seen else '>'} {bound}"

    def __repr__(self):
        return f"window({self.left}, {self.right})"


@dataclass(frozen=True, eq=False, repr=False)
class Strided(Distance):
    step: int

    @staticmethod
    def rule(at, b, h, i, j, step):
        return (i - j) % step == 0  # of a negative number too: 0 is 0 whichever way a language rounds

    def numbers(self, seen, b, h, i, j):
        return _multiple(seen, i, j, self.step)

    def __repr__(self):
        return f"strided({self.step})"


@dataclass(frozen=True, eq=False, repr=False)
class Dilated(Distance):
    left: int
    right: int
    step: int

    @staticmethod
    def rule(at, b, h, i, j, back, ahead, step):
        return ((i - j) % step == 0) & (i - j <= back) & (j - i <= ahead)

    def params(self):
        return self.left * self.step, self.right * self.step, self.step  # no rule multiplies: 32 bits would not do

    def numbers(self, seen, b, h, i, j):
        if (i - j) % self.step:
            return _multiple(seen, i, j, self.step)
        late, early, bound = (i, j, self.left) if j <= i else (j, i, self.right)
        steps = f"{late} − {early} = {(late - early) // self.step} · {self.step}"
        return f"{steps}, {(late - early) // self.step} {'≤' if seen else '>'} {bound}"

    def __repr__(self):
        return f"dilated({self.left}, {self.right}, {self.step})"


@dataclass(frozen=True, eq=False, repr=False)
class LogStrided(Value):
    @staticmethod
    def rule(at, b, h, i, j):
        distance = i - j
        return (distance >= 0) & (
            (distance & (distance - 1)) == 0
        )  # intervals need both; for numbers the second will do

    def numbers(self, seen, b, h, i, j):
        if j >= i:
            return f"{j} {'=' if seen else '>'} {i}"
        return say(f"masks.explain.power_{'visible' if seen else 'hidden'}", i=i, j=j, distance=i - j)

    def __repr__(self):
        return "log_strided"


causal = Causal()
log_strided = LogStrided()


def window(left, right):
    """See `left` positions back, `right` positions ahead and one's own: both ends inclusive."""
    return Window(count("left", left), count("right", right))


def window_of(total):
    """See `total` keys in all, the last of them at one's own position: `window(total − 1, 0)`."""
    return window(count("total", total, least=1) - 1, 0)


def strided(step):
    """See the keys at a multiple of `step` from one's own position, back and ahead.

    The strided pattern of Child et al. (2019) is `causal & (window(step, 0) | strided(step))`.
    """
    return Strided(count("step", step, least=1))


def dilated(left, right, step):
    """See `left` keys back, `right` ahead and one's own, each `step` positions from the next.

    A dilated sliding window (Beltagy et al., 2020) of w keys and gaps of `step` is `dilated(w // 2, w // 2, step)`;
    `dilated(left, right, 1)` sees what `window(left, right)` does.
    """
    left, right, step = count("left", left), count("right", right), count("step", step, least=1)
    count("the reach of dilated", max(left, right) * step)
    return Dilated(left, right, step)


def _multiple(seen, i, j, step):
    late, early = (i, j) if j <= i else (j, i)
    state = "visible" if seen else "hidden"
    return say(f"masks.explain.multiple_{state}", late=late, early=early, distance=late - early, step=step)
