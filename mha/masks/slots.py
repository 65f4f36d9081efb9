"""Masks that go by slot, whatever the positions: any boolean array."""

from dataclasses import dataclass, replace
from typing import Any

from mha.integers import own
from mha.masks.arrays import frozen, is_one, table_text
from mha.masks.base import Mask, at
from mha.text import say

__all__ = ["BySlot", "as_mask", "dense"]


class BySlot(Mask):
    """A mask of which the query side goes by slot too: `start` is where slot 0 stands, per sample or once."""

    goes_by_slot = True

    def __call__(self, b, h, i, j):
        samples, heads = self._sizes_from(self.start)
        return self.rule(at, 0 if samples == 1 else b, 0 if heads == 1 else h, i, j, *self.params())

    def placed(self, q_start):
        return replace(self, start=(q_start,) if is_one(q_start) else q_start)

    def row(self, b, i):
        """Return the slot of the query at position i."""
        return i - int(self.start[b if len(self.start) > 1 else 0])

    def why(self, b, h, i, j, negated=False):
        for name, slot, size in zip("ij", (self.row(b, i), j), self.extent(), strict=True):
            if size is not None and not 0 <= slot < size:
                raise ValueError(f"{name} is in slot {slot}: expected 0 to {size - 1}, the slots of the {self.noun}")
        return super().why(b, h, i, j, negated)


@dataclass(frozen=True, eq=False, repr=False)
class Dense(BySlot):
    table: Any  # (b | 1, h | 1, i | 1, j | 1)
    start: Any = (0,)
    noun = "dense mask"

    @staticmethod
    def rule(at, b, h, i, j, table, start, start_step, b_step, h_step, i_step, j_step):
        row = i - at(start, b * start_step)
        return at(table, b * b_step + h * h_step + row * i_step + j * j_step)

    def params(self):
        steps, step = [], 1
        for size in reversed(self.table.shape):
            steps.insert(0, step * (size != 1))  # 0 repeats an axis of size 1
            step *= size
        return self.table.reshape(-1), self.start, int(len(self.start) != 1), *steps

    def ready(self, n_q, n_k):
        return self.table if tuple(self.table.shape[2:]) == (n_q, n_k) else None

    def extent(self):
        return tuple(None if size == 1 else size for size in self.table.shape[2:])

    def numbers(self, seen, b, h, i, j):
        return say(f"masks.explain.slot_{'visible' if seen else 'hidden'}", row=self.row(b, i), column=j)

    def sizes(self):
        return tuple(self.table.shape[:2])

    def check(self, n_q, n_k, batch=1, num_heads=1):
        expected = batch, num_heads, n_q, n_k
        if any(size not in (1, wanted) for size, wanted in zip(self.table.shape, expected, strict=True)):
            got = self.table.shape[2:] if self.table.shape[:2] == (1, 1) else tuple(self.table.shape)
            hint = "; padding of keys is masks.lengths(n) or masks.key_padding(keep)" if len(got) == 2 else ""
            raise ValueError(
                f"mask has shape {tuple(got)}: expected (i, j) = {(n_q, n_k)} "
                f"or broadcastable to (b, h, i, j) = {expected}{hint}"
            )

    def __repr__(self):
        table = self.table[0, 0] if self.table.shape[:2] == (1, 1) else self.table
        return f"dense({table_text(table)})"


def dense(array):
    """See what a boolean array says, by slot: (i, j), or four axes broadcastable to (b, h, i, j); True = attend."""
    array = own("mask", array, "rows of equal lengths")
    if not str(array.dtype).endswith("bool"):
        raise TypeError(
            f"mask has dtype {array.dtype}: expected booleans, True = attend; numbers that are added are bias="
        )
    if array.ndim not in (2, 4):
        hint = "; write (h, i, j) as (1, h, i, j) and (b, i, j) as (b, 1, i, j)" if array.ndim == 3 else ""
        raise ValueError(f"mask has shape {tuple(array.shape)}: expected (i, j) or (b, h, i, j){hint}")
    table = array[None, None] if array.ndim == 2 else array
    return Dense(frozen(table))


def as_mask(mask):
    """Return a Mask for what `mask=` accepts: a Mask or a boolean array."""
    if isinstance(mask, Mask):
        return mask
    if hasattr(mask, "dtype") and hasattr(mask, "shape"):
        return dense(mask)
    raise TypeError(
        f"mask is a {type(mask).__name__}: expected a mask of mha.masks, as masks.causal and masks.window(2, 0) are, "
        "or a boolean array (True = attend)"
    )
