"""Masks that are told slot by slot what counts: lengths, padding, segments, and any array."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mha.integers import integers, is_integral, own
from mha.masks.arrays import fingerprint, frozen, on_host, table_text
from mha.masks.base import Mask, at
from mha.text import say

__all__ = ["as_mask", "dense", "key_padding", "lengths", "padding_positions", "segment_positions", "segments"]


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
        keep = self._rows()
        seen = keep.cumsum(-1)
        return (self.n_k + 1 - (seen == seen[:, -1:]).sum(-1)) * keep.any(-1)

    def first_keys(self):
        keep = self._rows()
        return (keep.cumsum(-1) == 0).sum(-1) * keep.any(-1)

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if (self.samples, self.n_k) != (batch, n_k):
            raise ValueError(
                f"mask: key_padding has shape {(self.samples, self.n_k)}: expected (b, j) = {(batch, n_k)}"
            )

    def _rows(self):
        return self.keep.reshape(self.samples, self.n_k)

    def __repr__(self):
        return f"key_padding({table_text(self._rows())})"


class BySlot(Mask):
    """A mask of which the query side goes by slot too: `start` is where slot 0 stands, per sample or once."""

    goes_by_slot = True

    def __call__(self, b, h, i, j):
        samples, heads = self._sizes_from(self.start)
        return self.rule(at, 0 if samples == 1 else b, 0 if heads == 1 else h, i, j, *self.params())

    def _placed(self, q_start, first_keys):
        return replace(self, start=(q_start,) if isinstance(q_start, int) else q_start)

    def row(self, b, i):
        """Return the slot of the query at position i."""
        return i - int(self.start[b if len(self.start) > 1 else 0])

    def why(self, b, h, i, j, negated=False):
        for name, slot, size in zip("ij", (self.row(b, i), j), self.extent(), strict=True):
            if size is not None and not 0 <= slot < size:
                raise ValueError(f"{name} is in slot {slot}: expected 0 to {size - 1}, the slots of the {self.noun}")
        return super().why(b, h, i, j, negated)


@dataclass(frozen=True, eq=False, repr=False)
class Segments(BySlot):
    q_ids: Any  # (b | 1, i), flat
    k_ids: Any  # (b | 1, j), flat
    samples: int
    n_q: int
    n_k: int
    start: Any = (0,)
    noun = "segments"

    @staticmethod
    def rule(at, b, h, i, j, q_ids, k_ids, start, start_step, q_step, k_step):
        row = i - at(start, b * start_step)
        return at(q_ids, b * q_step + row) == at(k_ids, b * k_step + j)

    def params(self):
        steps = (0, 0) if self.samples == 1 else (self.n_q, self.n_k)
        return self.q_ids, self.k_ids, self.start, int(len(self.start) != 1), *steps

    def extent(self):
        return self.n_q, self.n_k

    def numbers(self, seen, b, h, i, j):
        b = 0 if self.samples == 1 else b
        query = int(self.q_ids[b * self.n_q + self.row(b, i)])
        key = int(self.k_ids[b * self.n_k + j])
        state = "visible" if seen else "hidden"
        return say(f"masks.explain.segment_{state}", **({"segment": key} if seen else {"query": query, "key": key}))

    def sizes(self):
        return self.samples, 1

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if (self.n_q, self.n_k) != (n_q, n_k) or self.samples not in (1, batch):
            raise ValueError(
                f"mask: segments knows {self.n_q} queries and {self.n_k} keys of {self.samples} samples: "
                f"expected {n_q} and {n_k}, once or for {batch} samples"
            )

    def __repr__(self):
        q_ids, k_ids = (ids.reshape(self.samples, -1) if self.samples != 1 else ids for ids in (self.q_ids, self.k_ids))
        texts = table_text(q_ids), table_text(k_ids)
        same = fingerprint(q_ids) == fingerprint(k_ids)
        return f"segments({texts[0]})" if same else f"segments({texts[0]}, {texts[1]})"


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


def lengths(n):
    """See the first n[b] keys of sample b; the rest is padding. Queries end at the last valid key by default."""
    n = integers("n", n, "integers, one length per sample, not one truth per key")
    if on_host(n) and len(n) and n.min() < 0:
        raise ValueError(f"n holds {int(n.min())}: expected lengths of at least 0")
    return Lengths(frozen(n))


def key_padding(keep):
    """See the keys for which `keep`, booleans (b, j), is True; the others are padding, on either side or between.

    Queries end at the last valid key by default. Masks that count positions from the first key (`prefix`,
    `global_tokens`, `fixed`, `random_blocks`, the windows on grids) count from the first valid key of each sample, so
    that padding on the left, on the right and none mean the same. `padding_positions` says where the keys stand.
    """
    keep = _truths("keep", keep)
    return KeyPadding(frozen(keep.reshape(-1)), *keep.shape)


def segments(q_ids, k_ids=None):
    """See the keys of one's own segment: those whose id equals the query's. Several documents share one row.

    The ids are integers in any order, (i) and (j) for all samples alike or (b, i) and (b, j), by slot; without `k_ids`
    the keys are the queries. `causal & segments(ids)` is causal attention in each document by itself;
    `segment_positions` restarts the positions at each of them.
    """
    q_ids = _ids("q_ids", q_ids)
    k_ids = q_ids if k_ids is None else _ids("k_ids", k_ids)
    q_samples, k_samples = (1 if ids.ndim == 1 else len(ids) for ids in (q_ids, k_ids))
    if q_samples != k_samples:
        raise ValueError(f"k_ids are of {k_samples} samples and q_ids of {q_samples}: expected as many")
    n_q, n_k = q_ids.shape[-1], k_ids.shape[-1]
    return Segments(frozen(q_ids.reshape(-1)), frozen(k_ids.reshape(-1)), q_samples, n_q, n_k)


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


def padding_positions(keep):
    """Return the position of each key, (b, j): 0 at the first valid key of its sample, counting down before it."""
    keep = _truths("keep", keep)
    first = key_padding(keep).first_keys()
    slots = np.arange(keep.shape[1])
    return (slots if isinstance(keep, np.ndarray) else keep.new_tensor(slots, dtype=first.dtype)) - first[:, None]


def segment_positions(ids):
    """Return the position of each slot in its segment: 0 wherever the id differs from the one before."""
    ids = _ids("ids", ids)
    values = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids)
    slots = np.arange(values.shape[-1])
    begins = np.ones(values.shape, bool)
    begins[..., 1:] = values[..., 1:] != values[..., :-1]
    positions = slots - np.maximum.accumulate(np.where(begins, slots, 0), axis=-1)
    return positions if isinstance(ids, np.ndarray) else ids.new_tensor(positions)


def _truths(name, values):
    array = own(name, values, "rows of equal lengths")
    if not str(array.dtype).endswith("bool"):
        raise TypeError(f"{name} has dtype {array.dtype}: expected booleans, True = a key that counts")
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(array.shape)}: expected (b, j), one truth per key of each sample")
    return array


def _ids(name, values):
    array = own(name, values, "rows of equal lengths")
    if isinstance(values, (list, tuple)) and array.size == 0:
        array = array.astype(np.int64)
    if not is_integral(array):
        raise TypeError(f"{name} has dtype {array.dtype}: expected integers, one id per slot")
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(array.shape)}: expected (n,) or (b, n), one id per slot")
    return array.astype(np.int64) if isinstance(array, np.ndarray) else array.long()
