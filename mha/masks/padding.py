"""Rows of unequal lengths in one batch: which keys are real and which fill up."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mha.integers import integers, own
from mha.masks.arrays import frozen, on_host, table_text
from mha.masks.base import Mask
from mha.text import say

__all__ = ["key_padding", "lengths", "padding_positions"]


@dataclass(frozen=True, eq=False, repr=False)
class Lengths(Mask):
    n: Any
    goes_by_slot = True

    @staticmethod
    def rule(at, b, h, i, j, n):
        return j < at(n, b)

    def numbers(self, seen, b, h, i, j):
        return say("masks.explain.sample", b=b, comparison=f"{j} {'<' if seen else '≥'} {int(self.n[b])}")

    def sizes(self):
        return len(self.n), 1

    def valid_lengths(self):
        return self.n

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if len(self.n) != batch:
            raise ValueError(f"mask: lengths has {len(self.n)} entries and the batch has {batch}: give one per sample")
        if on_host(self.n) and batch and self.n.max() > n_k:
            raise ValueError(f"mask: lengths holds {int(self.n.max())} and there are {n_k} keys: expected 0 to {n_k}")

    def __repr__(self):
        return f"lengths({table_text(self.n)})"


@dataclass(frozen=True, eq=False, repr=False)
class KeyPadding(Mask):
    keep: Any  # (b · j,)
    samples: int
    n_k: int
    goes_by_slot = True

    @staticmethod
    def rule(at, b, h, i, j, keep, samples, n_k):
        return at(keep, b * n_k + j)

    def why(self, b, h, i, j, negated=False):
        if j >= self.n_k:
            raise ValueError(f"j is {j}: expected 0 to {self.n_k - 1}, the keys of key_padding")
        return super().why(b, h, i, j, negated)

    def numbers(self, seen, b, h, i, j):
        state = say(f"masks.explain.key_{'visible' if seen else 'hidden'}", j=j)
        return say("masks.explain.sample", b=b, comparison=state)

    def sizes(self):
        return self.samples, 1

    def valid_lengths(self):
        valid = self._valid_so_far()
        return (self.n_k + 1 - (valid == valid[:, -1:]).sum(-1)) * self._rows().any(-1)

    def first_keys(self):
        """Return the slot of each sample's first valid key, 0 if it has none: where `shifted` begins to count."""
        return (self._valid_so_far() == 0).sum(-1) * self._rows().any(-1)

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if (self.samples, self.n_k) != (batch, n_k):
            raise ValueError(
                f"mask: key_padding has shape {(self.samples, self.n_k)}: expected (b, j) = {(batch, n_k)}"
            )

    def _valid_so_far(self):
        """Return how many keys are valid up to each one, itself included."""
        return (self._rows() * 1).cumsum(-1)

    def _rows(self):
        return self.keep.reshape(self.samples, self.n_k)

    def __repr__(self):
        return f"key_padding({table_text(self._rows())})"


def lengths(n):
    """See the first n[b] keys of sample b; the rest is padding. Queries end at the last valid key by default."""
    n = integers("n", n, "integers, one length per sample, not one truth per key")
    if on_host(n) and len(n) and n.min() < 0:
        raise ValueError(f"n holds {int(n.min())}: expected lengths of at least 0")
    return Lengths(frozen(n))


def key_padding(keep):
    """See the keys for which `keep`, booleans (b, j), is True; the others are padding, on either side or between.

    Queries end at the last valid key by default, so that masks of distances (`causal`, `window`, `strided`, …) show
    the same with padding on the left, on the right and without. Masks that name places (`prefix`, `global_tokens`,
    `fixed`, grids) count from slot 0: with padding on the left, move them by `shifted(mask, first)`.
    `padding_positions` says where the keys stand for a position scheme.
    """
    keep = _truths("keep", keep)
    return KeyPadding(frozen(keep.reshape(-1)), *keep.shape)


def padding_positions(keep):
    """Return the position of each key, (b, j): 0 at the first valid key of its sample, counting down before it."""
    keep = _truths("keep", keep)
    first = key_padding(keep).first_keys()
    slots = np.arange(keep.shape[1])
    return (slots if isinstance(keep, np.ndarray) else keep.new_tensor(slots, dtype=first.dtype)) - first[:, None]


def _truths(name, values):
    array = own(name, values, "rows of equal lengths")
    if not str(array.dtype).endswith("bool"):
        raise TypeError(f"{name} has dtype {array.dtype}: expected booleans, True = a key that counts")
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(array.shape)}: expected (b, j), one truth per key of each sample")
    return array
