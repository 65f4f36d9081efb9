"""A mask for each head."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mha.masks.arrays import common_size, frozen
from mha.masks.base import Mask, Or, at, joined
from mha.masks.slots import as_mask
from mha.text import say

__all__ = ["per_head"]


@dataclass(frozen=True, eq=False, repr=False)
class PerHead(Mask):
    which: Any  # (h,): the index of the head's mask
    masks: tuple[Mask, ...]  # each once

    def __call__(self, b, h, i, j):
        which = at(self.which, h)
        return reduce(lambda one, two: one | two, [(which == k) & m(b, h, i, j) for k, m in enumerate(self.masks)])

    def parts(self):
        return list(self.masks)

    def _rebuild(self, on_mask, on_table):
        return PerHead(on_table(self.which), tuple(on_mask(mask) for mask in self.masks))

    def sizes(self):
        samples, heads = super().sizes()
        return samples, common_size((len(self.which), heads))

    def valid_lengths(self):
        return joined([mask.valid_lengths() for mask in self.masks], Or.end_of_both)

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if len(self.which) != num_heads:
            raise ValueError(f"mask: per_head has {len(self.which)} masks and there are {num_heads} heads")
        super().check(n_q, n_k, batch, num_heads)

    def why(self, b, h, i, j, negated=False):
        seen, reasons, others = self.masks[int(self.which[h])].why(b, h, i, j, negated)
        return seen, [say("masks.explain.head", h=h, reason=reason) for reason in reasons], others

    def _each(self):
        return [self.masks[int(k)] for k in self.which]

    def _content(self):
        return PerHead, *self._each()

    def __repr__(self):
        return f"per_head([{', '.join(map(repr, self._each()))}])"


def per_head(masks):
    """See what the head's own mask shows: one mask, or one boolean array, for each query head.

    Longformer's dilation on two of four heads (Beltagy et al., 2020) is
    `per_head([window(w, w)] * 2 + [dilated(w, w, 2)] * 2)`.
    """
    if not isinstance(masks, (list, tuple)):
        raise TypeError(f"masks is a {type(masks).__name__}: expected a list, one mask per head")
    if not masks:
        raise ValueError("masks is empty: expected one mask per head")
    distinct: list[Mask] = []
    which = [_index(distinct, as_mask(mask)) for mask in masks]
    return PerHead(frozen(np.array(which)), tuple(distinct))


def _index(distinct, mask):
    """Return where the very mask is in the list, which gets it if it is not there."""
    known = [k for k, other in enumerate(distinct) if other is mask]
    if not known:
        distinct.append(mask)
    return known[0] if known else len(distinct) - 1
