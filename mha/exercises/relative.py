"""Relative positions: slopes, vectors inside the keys, buckets of distances, and from distances to pairs."""

import math

import numpy as np

from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree


def alibi_slopes(num_heads):
    return 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)


def keys_with_distances(q, k, table):
    return _clipped_scores(q, k, table, lambda i, j: j - i)


def bucket(back, num_buckets, max_distance):
    exact = num_buckets // 2
    return _bucket(back, exact, num_buckets - exact, max_distance)


def pairs_from_distances(x):
    n = len(x)
    i, j = np.indices((n, n))
    return x[i, j - i + n - 1]


SLOPES = Exercise(
    id="relative-1",
    solve=alibi_slopes,
    cases=lambda rng: [(2,), (4,), (8,), (16,)],
    mistakes={
        "from-one": lambda num_heads: 2.0 ** (-8.0 * np.arange(num_heads) / num_heads),
        "eight-heads-only": lambda num_heads: 2.0 ** -np.arange(1.0, num_heads + 1),
        "multiplied": lambda num_heads: 2.0 ** (-np.arange(1.0, num_heads + 1) * num_heads / 8),
        "arithmetic": lambda num_heads: np.arange(1, num_heads + 1) / num_heads,
        "reversed": lambda num_heads: alibi_slopes(num_heads)[::-1],
        "natural": lambda num_heads: np.exp(-8.0 * np.arange(1, num_heads + 1) / num_heads),
        "negative": lambda num_heads: -alibi_slopes(num_heads),
    },
    properties={
        "last-is-1-in-256": lambda output, num_heads: agree(output[-1], 2.0**-8, 1e-9),
        "constant-ratio": lambda output, num_heads: agree(output[1:] / output[:-1], output[1:] * 0 + output[0], 1e-9),
    },
)


def _distances(q, k, of):
    return of(np.arange(len(q))[:, None], np.arange(len(k)))


def _clipped_scores(q, k, table, of, content=1.0, scale=None):
    """Return scores of queries against keys, each with the row of the table for its distance."""
    limit = len(table) // 2
    rows = table[np.clip(_distances(q, k, of), -limit, limit) + limit]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return (content * q @ k.T + np.einsum("id,ijd->ij", q, rows)) * scale


def _wrapped_scores(q, k, table):
    rows = table[(_distances(q, k, lambda i, j: j - i) + len(table) // 2) % len(table)]
    return np.einsum("id,ijd->ij", q, k + rows) / math.sqrt(q.shape[-1])


def _query_side(q, k, table):
    return _clipped_scores(k, q, table, lambda j, i: j - i).T


def _shaw(rng, n_q, n_k, width, limit):
    return rng.standard_normal((n_q, width)), rng.standard_normal((n_k, width)), rng.standard_normal((limit, width))


KEYS = Exercise(
    id="relative-2",
    solve=keys_with_distances,
    cases=lambda rng: [
        (np.ones((2, 1)), np.array([[1.0], [2.0]]), np.array([[10.0], [20.0], [30.0]])),
        _shaw(rng, 5, 5, 3, 5),
        _shaw(rng, 3, 7, 2, 3),
        (rng.standard_normal((2, 3)), rng.standard_normal((5, 3)), np.zeros((3, 3))),
    ],
    mistakes={
        "direction": lambda q, k, table: _clipped_scores(q, k, table, lambda i, j: i - j),
        "no-sign": lambda q, k, table: _clipped_scores(q, k, table, lambda i, j: abs(i - j)),
        "not-clipped": _wrapped_scores,
        "no-scale": lambda q, k, table: _clipped_scores(q, k, table, lambda i, j: j - i, scale=1.0),
        "scaled-content-only": lambda q, k, table: (
            keys_with_distances(q, k, table)
            + (1 - 1 / math.sqrt(q.shape[-1])) * _clipped_scores(q, k, table, lambda i, j: j - i, 0.0, 1.0)
        ),
        "no-content": lambda q, k, table: _clipped_scores(q, k, table, lambda i, j: j - i, content=0.0),
        "in-queries": _query_side,
        "by-key-alone": lambda q, k, table: _clipped_scores(q, k, table, lambda i, j: j + 0 * i),
    },
    properties={
        "without-table": lambda output, q, k, table: (
            table.any() or agree(output, q @ k.T / math.sqrt(q.shape[-1]), 1e-9)
        ),
    },
)


def _bucket(back, exact, ranges, max_distance, log=np.log, rounding=np.floor, last=None):
    back = np.asarray(back)
    far = np.maximum(back, exact)
    grown = exact + rounding(log(far / exact) / log(max_distance / exact) * ranges).astype(int)
    return np.where(back < exact, back, np.minimum(grown, exact + ranges - 1 if last is None else last))


def _with(**change):
    def wrong(back, num_buckets, max_distance):
        exact = num_buckets // 2
        given = {"exact": exact, "ranges": num_buckets - exact, "max_distance": max_distance}
        return _bucket(back, **given | {key: value(num_buckets, max_distance) for key, value in change.items()})

    return wrong


BUCKET = Exercise(
    id="relative-3",
    solve=bucket,
    cases=lambda rng: [
        (np.arange(6), 4, 8),
        (np.arange(40), 8, 32),
        (np.array([0, 1, 15, 16, 20, 31, 50, 63, 100, 127, 128, 1000]), 32, 128),
    ],
    mistakes={
        "clipped-only": lambda back, num_buckets, max_distance: np.minimum(back, num_buckets - 1),
        "linear": lambda back, num_buckets, max_distance: np.minimum(
            np.asarray(back) * num_buckets // max_distance, num_buckets - 1
        ),
        "no-limit": _with(last=lambda num_buckets, max_distance: 10**9),
        "one-too-many": _with(last=lambda num_buckets, max_distance: num_buckets),
        "rounded": _with(rounding=lambda *_: np.round),
        "both-directions": lambda back, num_buckets, max_distance: bucket(back, num_buckets // 2, max_distance),
        "log-of-distance": lambda back, num_buckets, max_distance: np.minimum(
            (np.log1p(back) / math.log(max_distance) * num_buckets).astype(int), num_buckets - 1
        ),
    },
    properties={
        "small-are-exact": lambda output, back, num_buckets, max_distance: (output == back)[
            back < num_buckets // 2
        ].all(),
        "never-falls": lambda output, back, num_buckets, max_distance: (np.diff(output) >= 0).all(),
        "stays-in-table": lambda output, back, num_buckets, max_distance: output.max() < num_buckets,
    },
)


def _gathered(of):
    def wrong(x):
        n = len(x)
        return x[np.arange(n)[:, None], of(*np.indices((n, n)), n)]

    return wrong


PAIRS = Exercise(
    id="relative-4",
    solve=pairs_from_distances,
    cases=lambda rng: [
        (np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),),
        (np.arange(35.0).reshape(5, 7)[:4],),
        (rng.standard_normal((7, 13)),),
        (rng.standard_normal((1, 1)),),
    ],
    mistakes={
        "no-shift": lambda x: x[:, : len(x)],
        "last-columns": lambda x: x[:, len(x) - 1 :],
        "direction": _gathered(lambda i, j, n: i - j + n - 1),
        "shifted-left": _gathered(lambda i, j, n: (j + i) % (2 * n - 1)),
        "keys-reversed": _gathered(lambda i, j, n: n - 1 - j - i + n - 1),
        "transposed": lambda x: pairs_from_distances(x).T,
    },
    properties={
        "diagonal-is-distance-0": lambda output, x: (np.diagonal(output) == x[:, len(x) - 1]).all(),
    },
)

HALF = Exercise(
    id="relative-5",
    solve=lambda: 16 * math.log(2),
    mistakes={
        "base-two": lambda: 16.0,
        "slope-only": lambda: 1 / 16,
        "half-of-16": lambda: 8.0,
        "times-slope": lambda: math.log(2) / 16,
        "to-one-in-e": lambda: 16 * math.e,
        "base-ten": lambda: 16 * math.log10(2),
        "slope-squared": lambda: 256 * math.log(2),
    },
    tolerance=2e-3,
)

EXERCISES = (SLOPES, KEYS, BUCKET, PAIRS, HALF)
