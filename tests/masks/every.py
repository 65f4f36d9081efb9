"""One mask of every kind, and some of several kinds together, for given lengths; 0 is a length."""

from itertools import cycle

import numpy as np
import pytest

from mha import masks


def every(n_q, n_k, batch, heads):
    """Return masks by name that serve `n_q` queries, `n_k` keys, `batch` samples and `heads` heads."""
    rng = np.random.default_rng(3)
    table = rng.random((batch, heads, n_q, n_k)) < 0.5
    q_ids, k_ids = (np.sort(rng.integers(0, 3, (batch, n))) for n in (n_q, n_k))
    n = rng.integers(min(1, n_k), n_k + 1, batch)
    left_padding = np.arange(n_k) >= rng.integers(0, max(1, n_k), batch)[:, None]
    columns, positions = 4, max(n_q, n_k, 8)
    grid = -(-positions // columns), columns
    random = masks.random_blocks(5, positions, block=4, number=2)
    leaves = {
        "causal": masks.causal,
        "window": masks.window(5, 2),
        "strided": masks.strided(4),
        "dilated": masks.dilated(3, 1, 3),
        "log_strided": masks.log_strided,
        "fixed": masks.fixed(6, 2),
        "random_blocks": random,
        "prefix": masks.prefix(3),
        "prefix of samples": masks.prefix(list(range(batch))),
        "global_tokens": masks.global_tokens([0, 7]),
        "lengths": masks.lengths(n),
        "key_padding": masks.key_padding(left_padding),
        "segments": masks.segments(q_ids, k_ids),
        "segments of all": masks.segments(q_ids[0], k_ids[0]),
        "window2d": masks.window2d(grid, 1),
        "shifted_window2d": masks.shifted_window2d(grid, (3, 2), (1, 1)),
        "per_head": masks.per_head([masks.causal, *[masks.window(2, 0)] * (heads - 1)]),
        "in_blocks": masks.in_blocks(rng.random((batch, heads, -(-n_q // 5), -(-n_k // 3))) < 0.5, (5, 3)),
        "dense": masks.dense(table),
        "dense of queries": masks.dense(table[:1, :1, :, :1]),
        "dense of keys": masks.dense(table[:, :1, :1]),
    }
    first = leaves["key_padding"].first_keys()
    together = {
        "not causal": ~masks.causal,
        "causal window": masks.causal & masks.window(6, 0),
        "sparse transformer": masks.causal & (masks.window(3, 0) | masks.strided(4)),
        "longformer": masks.window(2, 2) | masks.global_tokens([1]),
        "bigbird": masks.window(2, 2) | masks.global_tokens([1]) | random,
        "prefix, padded on the left": leaves["key_padding"] & (masks.causal | masks.shifted(masks.prefix(2), first)),
        "global, padded on the left": (
            masks.shifted(masks.fixed(5) | masks.global_tokens([2]), first) & leaves["key_padding"]
        ),
        "shifted": masks.shifted(leaves["prefix of samples"] | random, 3),
        "documents": masks.causal & leaves["segments"],
        "decoding": masks.causal & masks.lengths(n),
        "heads of many kinds": masks.per_head(
            [leaves["global_tokens"] & masks.lengths(n), *[~leaves["strided"]] * (heads - 1)]
        ),
        "nonsense": ~(leaves["dense"] & ~masks.causal) | leaves["segments"],
    }
    return leaves | together


def in_turn(kinds, starts):
    """Return parameters (mask, q_start): each mask with the next of these starts."""
    return [
        pytest.param(mask, start, id=name) for (name, mask), start in zip(kinds.items(), cycle(starts), strict=False)
    ]
