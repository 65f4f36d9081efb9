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
        full, partial = self.tiles.by_query()
        lines = range(int(np.prod(self.tiles.shape[:3])))
        return [self._step(line, full[line], partial[line]) for line in lines if len(full[line]) + len(partial[line])]

    def _step(self, line, full, partial):
        b, h, row = (int(x) for x in np.unravel_index(line, self.tiles.shape[:3]))
        rows = slice(row * SIZE[0], min((row + 1) * SIZE[0], self.call.n_q))
        columns = np.concatenate([full, partial])
        order = np.argsort(columns)
        columns, is_partial = columns[order], order >= len(full)
        j = (columns[:, None] * SIZE[1] + np.arange(SIZE[1])).reshape(-1)
        j = j[: np.searchsorted(j, self.call.n_k)]
        bias = self._bias(b, h, rows, j, is_partial) if len(partial) else None
        in_one_piece = j[-1] - j[0] + 1 == len(j)
        keys = slice(int(j[0]), int(j[-1]) + 1) if in_one_piece else torch.from_numpy(j).long()
        return Step(*self._group(b, h), rows, keys, bias)

    def _bias(self, b, h, rows, j, is_partial):
        """Return the bias of a step; the rule is asked in the partial tiles alone."""
        start = self.start[b if len(self.start) > 1 else 0]
        asked = np.repeat(is_partial, SIZE[1])[: len(j)]
        see = np.ones((rows.stop - rows.start, len(j)), bool)
        see[:, asked] = self.mask(b, h, start + np.arange(rows.start, rows.stop)[:, None], j[asked])
        name = see.shape, np.packbits(see).tobytes()
        if name not in self.shared:
            bias = torch.from_numpy(np.where(see, 0.0, -np.inf)).to(self.dtype)
            self.shared[name] = None if see.all() else bias
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
