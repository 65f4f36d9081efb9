"""Random masks, each with its meaning in plain Python beside it: what `mha.masks` must agree with."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mha import masks


@dataclass
class Drawn:
    """A mask, its rule on (b, h, query slot, query position, key), and where each sample's keys end, if it says."""

    mask: Any
    rule: Any
    ends: Any = None

    def __and__(self, other):
        rule = lambda *x: self.rule(*x) and other.rule(*x)  # noqa: E731
        return Drawn(self.mask & other.mask, rule, _both(min, self.ends, other.ends))

    def __or__(self, other):
        rule = lambda *x: self.rule(*x) or other.rule(*x)  # noqa: E731
        return Drawn(self.mask | other.mask, rule, _both(max, self.ends, other.ends))

    def __invert__(self):
        return Drawn(~self.mask, lambda *x: not self.rule(*x), self.ends)

    def starts(self, sizes, q_start):
        """Return the position of the first query of each sample."""
        if q_start is not None:
            return [int(q_start)] * sizes.batch if np.ndim(q_start) == 0 else [int(x) for x in q_start]
        shift = sizes.n_k - sizes.n_q
        if self.ends is None:
            return [shift] * sizes.batch
        return [max(end - sizes.n_q, min(0, shift)) for end in self.ends]

    def see(self, sizes, q_start=None):
        """Return the boolean array (b, h, i, j)."""
        starts, shape = self.starts(sizes, q_start), (sizes.batch, sizes.heads, sizes.n_q, sizes.n_k)
        pairs = [self.rule(b, h, i, starts[b] + i, j) for b, h, i, j in np.ndindex(shape)]
        return np.array(pairs, bool).reshape(shape)


def everything():
    return Drawn(None, lambda b, h, slot, i, j: True)


def draw_mask(rng, sizes):
    """Return one to three terms joined at random."""
    drawn = _term(rng, sizes)
    for _ in range(rng.integers(0, 3)):
        other = _term(rng, sizes)
        other = ~other if rng.random() < 0.2 else other
        drawn = drawn & other if rng.random() < 0.6 else drawn | other
    return drawn


def _term(rng, sizes):
    maker = TERMS[rng.integers(len(TERMS))]
    return maker(rng, sizes)


def _both(choose, one, two):
    if one is None or two is None:
        return two if one is None else one
    return [choose(x, y) for x, y in zip(one, two, strict=True)]


def _causal(rng, sizes):
    return Drawn(masks.causal, lambda b, h, slot, i, j: j <= i)


def _window(rng, sizes):
    left, right = (int(x) for x in rng.integers(0, 6, 2))
    return Drawn(masks.window(left, right), lambda b, h, slot, i, j: -right <= i - j <= left)


def _strided(rng, sizes):
    step = int(rng.integers(1, 5))
    return Drawn(masks.strided(step), lambda b, h, slot, i, j: (i - j) % step == 0)


def _dilated(rng, sizes):
    left, right, step = (int(x) for x in rng.integers(1, 4, 3))
    inside = lambda i, j: (i - j) % step == 0 and -right <= (i - j) // step <= left  # noqa: E731
    return Drawn(masks.dilated(left, right, step), lambda b, h, slot, i, j: inside(i, j))


def _log_strided(rng, sizes):
    return Drawn(masks.log_strided, lambda b, h, slot, i, j: i - j in {0, *(2**m for m in range(12))})


def _fixed(rng, sizes):
    block = int(rng.integers(1, 6))
    summary = int(rng.integers(0, block + 1))
    rule = lambda b, h, slot, i, j: i // block == j // block or j % block >= block - summary  # noqa: E731
    return Drawn(masks.fixed(block, summary), rule)


def _lengths(rng, sizes):
    n = rng.integers(0, sizes.n_k + 1, sizes.batch)
    return Drawn(masks.lengths(n), lambda b, h, slot, i, j: j < n[b], [int(x) for x in n])


def _key_padding(rng, sizes):
    keep = rng.random((sizes.batch, sizes.n_k)) < 0.7
    ends = [max(np.flatnonzero(row), default=-1) + 1 for row in keep]
    return Drawn(masks.key_padding(keep), lambda b, h, slot, i, j: keep[b, j], [int(x) for x in ends])


def _segments(rng, sizes):
    samples = sizes.batch if rng.random() < 0.5 else 1
    q_ids, k_ids = (rng.integers(0, 3, (samples, n)) for n in (sizes.n_q, sizes.n_k))
    return Drawn(
        masks.segments(q_ids, k_ids) if samples == sizes.batch else masks.segments(q_ids[0], k_ids[0]),
        lambda b, h, slot, i, j: q_ids[b % samples, slot] == k_ids[b % samples, j],
    )


def _prefix(rng, sizes):
    n = rng.integers(0, sizes.n_k + 1, sizes.batch)
    if rng.random() < 0.5:
        return Drawn(masks.prefix(int(n[0])), lambda b, h, slot, i, j: j < n[0])
    return Drawn(masks.prefix(n), lambda b, h, slot, i, j: j < n[b])


def _global_tokens(rng, sizes):
    chosen = {int(x) for x in rng.integers(0, sizes.n_k + 1, 2)}
    return Drawn(masks.global_tokens(sorted(chosen)), lambda b, h, slot, i, j: i in chosen or j in chosen)


def _dense(rng, sizes):
    if rng.random() < 0.5:
        table = rng.random((sizes.n_q, sizes.n_k)) < 0.6
        return Drawn(masks.dense(table), lambda b, h, slot, i, j: table[slot, j])
    shape = [x if rng.random() < 0.6 else 1 for x in (sizes.batch, sizes.heads, sizes.n_q, sizes.n_k)]
    table = rng.random(shape) < 0.6
    whole = np.broadcast_to(table, (sizes.batch, sizes.heads, sizes.n_q, sizes.n_k))
    return Drawn(masks.dense(table), lambda b, h, slot, i, j: whole[b, h, slot, j])


def _per_head(rng, sizes):
    each = [_window(rng, sizes) if rng.random() < 0.6 else _causal(rng, sizes) for _ in range(sizes.heads)]
    return Drawn(masks.per_head([one.mask for one in each]), lambda b, h, slot, i, j: each[h].rule(b, h, slot, i, j))


TERMS = [
    *(_causal, _window, _strided, _dilated, _log_strided, _fixed, _lengths, _key_padding),
    *(_segments, _prefix, _global_tokens, _dense, _per_head),
]
