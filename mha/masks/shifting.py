"""A mask moved along the sequence, once for all samples or for each of them."""

from dataclasses import dataclass
from typing import Any

from mha.masks.arrays import common_size, frozen
from mha.masks.base import Mask, at
from mha.masks.places import one_or_each, per_sample
from mha.text import say

__all__ = ["shifted"]


@dataclass(frozen=True, eq=False, repr=False)
class Shifted(Mask):
    one: Mask
    first: Any  # (b | 1,)

    def __call__(self, b, h, i, j):
        first = at(self.first, 0 if len(self.first) == 1 else b)
        return self.one(b, h, i - first, j - first)

    def numbers(self, seen, b, h, i, j):
        first = int(self.first[0 if len(self.first) == 1 else b])
        return say("masks.explain.shifted", numbers=self.one.numbers(seen, b, h, i - first, j - first), first=first)

    def sizes(self):
        samples, heads = self.one.sizes()
        return common_size((len(self.first), samples)), heads

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if len(self.first) not in (1, batch):
            raise ValueError(
                f"mask: shifted has {len(self.first)} entries and the batch has {batch}: give one, or one each"
            )
        self.one.check(0, 0, batch, num_heads)  # what it counts may begin and end anywhere

    def __repr__(self):
        return f"shifted({self.one!r}, {one_or_each(self.first)})"


def shifted(mask, first):
    """Return the mask moved along: what it says of position 0 holds at `first`, an integer or one per sample.

    With padding on the left, `key_padding(keep) & shifted(prefix(3), key_padding(keep).first_keys())` shows what
    `prefix(3)` does without padding; so too for `global_tokens`, `fixed`, `random_blocks` and grids. Masks of distances
    (`causal`, `window`, …) stay what they are. `shifted(window2d(grid, 1), n)` is a picture after n tokens.
    """
    if not isinstance(mask, Mask):
        raise TypeError(f"mask is a {type(mask).__name__}: expected a mask of mha.masks")
    if _goes_by_slot(mask):
        raise ValueError(f"mask is {mask!r}, and a term of it goes by slot: shift the terms that count positions")
    return _moved(mask, frozen(per_sample("first", first)))


def _moved(mask, first):
    if mask.parts():
        return mask._rebuild(lambda part: _moved(part, first), lambda table: table)
    return mask if mask.goes_by_distance else Shifted(mask, first)


def _goes_by_slot(mask):
    """Tell whether a term of the mask does."""
    return mask.goes_by_slot or any(map(_goes_by_slot, mask.parts()))
