"""Several documents in one row: a segment for each."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mha.integers import integers, is_integral, own
from mha.masks.arrays import fingerprint, frozen, in_numpy, table_text
from mha.masks.slots import BySlot
from mha.text import say

__all__ = ["segment_ids", "segment_positions", "segments"]


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
        sample = 0 if self.samples == 1 else b  # of the ids: the start may differ where they do not
        query = int(self.q_ids[sample * self.n_q + self.row(b, i)])
        key = int(self.k_ids[sample * self.n_k + j])
        state = "visible" if seen else "hidden"
        return say(f"masks.explain.segment_{state}", **({"segment": key} if seen else {"query": query, "key": key}))

    def breaks(self):
        rows = (ids.reshape(self.samples, n) for ids, n in ((self.q_ids, self.n_q), (self.k_ids, self.n_k)))
        return tuple(ids[:, 1:] != ids[:, :-1] for ids in rows)

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


def segments(q_ids, k_ids=None):
    """See the keys of one's own segment: those whose id equals the query's. Several documents share one row.

    The ids are integers in any order, (i) and (j) for all samples alike or (b, i) and (b, j), by slot; without `k_ids`
    the keys are the queries. `causal & segments(ids)` is causal attention in each document by itself;
    `segment_positions` restarts the positions at each of them, `segment_ids` makes ids of where each one begins.
    """
    q_ids = _ids("q_ids", q_ids)
    k_ids = q_ids if k_ids is None else _ids("k_ids", k_ids)
    q_samples, k_samples = (1 if ids.ndim == 1 else len(ids) for ids in (q_ids, k_ids))
    if q_samples != k_samples:
        raise ValueError(f"k_ids are of {k_samples} samples and q_ids of {q_samples}: expected as many")
    n_q, n_k = q_ids.shape[-1], k_ids.shape[-1]
    return Segments(frozen(q_ids.reshape(-1)), frozen(k_ids.reshape(-1)), q_samples, n_q, n_k)


def segment_ids(offsets):
    """Return the id of each slot, 0, 1, …, of documents that lie one behind the other, n of them by n + 1 offsets.

    Document m takes the slots from offsets[m] up to offsets[m + 1], and may be empty; others say cu_seqlens. With keys
    that are others than the queries, it is `segments(segment_ids(q_offsets), segment_ids(k_offsets))`.
    """
    ends = integers("offsets", offsets, "integers, where each document begins and the last one ends")
    if np.ndim(offsets) != 1:
        raise ValueError(f"offsets has shape {tuple(np.shape(offsets))}: expected (n + 1,), for documents of one row")
    values = in_numpy(ends)
    lengths = np.diff(values)
    if not len(values) or values[0] != 0 or (lengths < 0).any():
        raise ValueError(f"offsets is {table_text(ends)}: expected 0, then where each document ends, in order")
    ids = np.repeat(np.arange(len(lengths)), lengths)
    return ids if isinstance(ends, np.ndarray) else ends.new_tensor(ids)


def segment_positions(ids):
    """Return the position of each slot in its segment: 0 wherever the id differs from the one before."""
    ids = _ids("ids", ids)
    values = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids)
    slots = np.arange(values.shape[-1])
    begins = np.ones(values.shape, bool)
    begins[..., 1:] = values[..., 1:] != values[..., :-1]
    positions = slots - np.maximum.accumulate(np.where(begins, slots, 0), axis=-1)
    return positions if isinstance(ids, np.ndarray) else ids.new_tensor(positions)


def _ids(name, values):
    array = own(name, values, "rows of equal lengths")
    if isinstance(values, (list, tuple)) and array.size == 0:
        array = array.astype(np.int64)
    if not is_integral(array):
        raise TypeError(f"{name} has dtype {array.dtype}: expected integers, one id per slot")
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(array.shape)}: expected (n,) or (b, n), one id per slot")
    return array.astype(np.int64) if isinstance(array, np.ndarray) else array.long()
