"""Masks that name places in the sequence: a prefix, some tokens."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mha.integers import count, integer, integers
from mha.masks.arrays import frozen, in_numpy, on_host, table_text
from mha.masks.base import Mask
from mha.text import say

__all__ = ["global_tokens", "prefix"]


@dataclass(frozen=True, eq=False, repr=False)
class Prefix(Mask):
    n: Any  # (b | 1,)

    @staticmethod
    def rule(at, b, h, i, j, n, step):
        return (j >= 0) & (j < at(n, b * step))

    def params(self):
        return self.n, int(len(self.n) != 1)

    def numbers(self, seen, b, h, i, j):
        shared = len(self.n) == 1
        comparison = f"{j} {'<' if seen else '≥'} {int(self.n[0 if shared else b])}"
        return comparison if shared else say("masks.explain.sample", b=b, comparison=comparison)

    def sizes(self):
        return len(self.n), 1

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if len(self.n) not in (1, batch):
            raise ValueError(f"mask: prefix has {len(self.n)} entries and the batch has {batch}: give one, or one each")

    def __repr__(self):
        return f"prefix({one_or_each(self.n)})"


@dataclass(frozen=True, eq=False, repr=False)
class GlobalTokens(Mask):
    chosen: Any  # (b | 1, position), flat: whether it is global
    samples: int
    size: int  # positions a sample

    @staticmethod
    def rule(at, b, h, i, j, chosen, step, size):
        query = (i >= 0) & (i < size) & at(chosen, b * step + (i % size + size) % size)
        key = (j >= 0) & (j < size) & at(chosen, b * step + (j % size + size) % size)
        return query | key

    def params(self):
        return self.chosen, self.size * (self.samples != 1), self.size

    def numbers(self, seen, b, h, i, j):
        chosen = self._indices()[0 if self.samples == 1 else b]
        if i in chosen:
            return say("masks.explain.global_query", i=i)
        return say("masks.explain.global_key", j=j) if seen else say("masks.explain.global_none", i=i, j=j)

    def sizes(self):
        return self.samples, 1

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if self.samples not in (1, batch):
            raise ValueError(f"mask: global_tokens is of {self.samples} samples and the batch has {batch}")

    def _indices(self):
        return [[int(k) for k in row.nonzero()[0]] for row in in_numpy(self.chosen).reshape(self.samples, self.size)]

    def __repr__(self):
        indices = self._indices()
        return f"global_tokens({indices[0] if self.samples == 1 else indices})"


def prefix(n):
    """See the first n keys, whoever asks; n is an integer, or one per sample. A prefix LM is `causal | prefix(n)`."""
    n = per_sample("n", n)
    if on_host(n) and len(n) and n.min() < 0:
        raise ValueError(f"n holds {int(n.min())}: expected numbers of keys, at least 0")
    return Prefix(frozen(n))


def global_tokens(positions):
    """See everything from the tokens at these positions, and see these tokens from everywhere.

    `positions` is a list of integers for all samples alike, or one list per sample. Longformer's pattern (Beltagy et
    al., 2020) is `window(w, w) | global_tokens(positions)`.
    """
    rows = _rows_of("positions", positions)
    size = 1 + max((max(row, default=0) for row in rows), default=0)
    chosen = np.zeros((len(rows), size), bool)
    for b, row in enumerate(rows):
        chosen[b, row] = True
    return GlobalTokens(frozen(chosen.reshape(-1)), len(rows), size)


def per_sample(name, value):
    """Return one integer or several as a flat table."""
    one = not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0
    return integers(name, [integer(name, value)] if one else value, "an integer, or one per sample")


def one_or_each(table):
    """Return the table as `per_sample` takes it."""
    return int(table[0]) if len(table) == 1 else table_text(table)


def _rows_of(name, positions):
    """Return the positions of each sample as lists, one list if all samples share it."""
    if hasattr(positions, "tolist"):
        positions = positions.tolist()
    if not isinstance(positions, (list, tuple)):
        raise TypeError(f"{name} is {positions!r}: expected a list of integers, or one list per sample")
    nested = [isinstance(row, (list, tuple)) for row in positions]
    if any(nested) and not all(nested):
        raise TypeError(f"{name} mixes integers and lists: expected a list of integers, or one list per sample")
    rows = positions if any(nested) else [positions]
    return [sorted({count(name, position) for position in row}) for row in rows]
