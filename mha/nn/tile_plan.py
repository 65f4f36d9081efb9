"""Which keys each tile of queries needs: the plan of a sparse mask, when most tiles of the scores are left out."""

from typing import Any, NamedTuple

import numpy as np
import torch

__all__ = ["Step", "find_plan"]

SIZE = 64, 64  # query rows, key columns
FEWEST_PAIRS = 2**20  # below, the steps cost more than the pairs that they save
DENSEST = 0.5  # with a larger share of visible tiles likewise


class Step(NamedTuple):
    """One tile of queries and all the keys that it sees, in folded axes."""

    samples: slice
    heads: slice
    rows: slice
    keys: Any  # a slice, or the indices
    bias: Any  # 0 for a visible pair, −inf for a hidden one; None if all are visible


def find_plan(call, dtype, per_group):
    """Return the steps of a call whose mask leaves most tiles out, else None; `per_group` heads a folded sample."""
    n_q, n_k = call.n_q, call.n_k
    if n_q * n_k < FEWEST_PAIRS or call.mask is None or call.mask.ready(n_q, n_k) is not None:
        return None
    tiles = call.mask.tiles(n_q, n_k, size=SIZE, q_start=call.q_start)
    if len(tiles.index) > DENSEST * np.prod(tiles.shape):
        return None
    return _Planner(call, tiles, dtype, per_group).steps()


class _Planner:
    def __init__(self, call, tiles, dtype, per_group):
        self.call, self.tiles, self.dtype, self.per_group = call, tiles, dtype, per_group
        self.start = np.reshape(np.asarray(call.q_start), -1)
        self.mask = call.mask.placed(call.q_start).on_tables(np.asarray)
        self.shared = {}  # tiles of a band look alike: one bias serves them

    def steps(self):
        samples, heads, rows, _ = self.tiles.shape
        full, partial = self.tiles.by_query()
        steps = []
        for line in range(samples * heads * rows):
            columns = np.sort(np.concatenate([full[line], partial[line]]))
            if len(columns):
                b, h, row = np.unravel_index(line, self.tiles.shape[:3])
                steps.append(self._step(int(b), int(h), int(row), columns, len(partial[line]) == 0))
        return steps

    def _step(self, b, h, row, columns, is_full):
        (bm, bn), n_q, n_k = SIZE, self.call.n_q, self.call.n_k
        i = np.arange(row * bm, min((row + 1) * bm, n_q))
        j = (columns[:, None] * bn + np.arange(bn)).reshape(-1)
        j = j[: np.searchsorted(j, n_k)]
        bias = None if is_full else self._bias(b, h, i, j)
        alone = j[-1] - j[0] + 1 == len(j)
        keys = slice(int(j[0]), int(j[-1]) + 1) if alone else torch.from_numpy(j).long()
        return Step(*self._group(b, h), slice(row * bm, row * bm + len(i)), keys, bias)

    def _bias(self, b, h, i, j):
        start = self.start[b if len(self.start) > 1 else 0]
        see = np.broadcast_to(self.mask(b, h, (start + i)[:, None], j), (len(i), len(j)))
        if see.all():
            return None
        name = see.shape, np.packbits(see).tobytes()
        if name not in self.shared:
            self.shared[name] = torch.from_numpy(np.where(see, 0.0, -np.inf)).to(self.dtype)
        return self.shared[name]

    def _group(self, b, h):
        """Return the folded samples and heads that share this line of tiles."""
        samples, heads, *_ = self.tiles.shape
        per_sample = self.call.num_heads // self.per_group
        first = b * per_sample
        if heads == 1:
            return slice(first, first + per_sample) if samples > 1 else slice(None), slice(None)
        group, head = divmod(h, self.per_group)
        first, step = (first + group, self.call.batch * per_sample) if samples > 1 else (group, per_sample)
        return slice(first, None, step), slice(head, head + 1)
