"""Long range: the margin of a needle, the reach of windows, log-length queries, rank collapse, decay as weights."""

import numpy as np

from mha.exercises.exercise import Exercise


def margin(n, share):
    return np.log(n - 1) + np.log(share / (1 - share))


MARGIN = Exercise(
    id="long-range-1",
    solve=margin,
    cases=lambda rng: [(6, 0.3), (1025, 0.5), (101, 0.9), (2, 0.2), (50_000, rng.uniform(0.3, 0.7))],
    mistakes={
        "itself-counted": lambda n, share: np.log(n) + np.log(share / (1 - share)),
        "half-only": lambda n, share: np.log(n - 1),
        "share-alone": lambda n, share: np.log(n - 1) + np.log(share),
        "upside-down": lambda n, share: np.log(n - 1) - np.log(share / (1 - share)),
        "sign": lambda n, share: -np.log(n - 1) + np.log(share / (1 - share)),
        "bits": lambda n, share: np.log2(n - 1) + np.log2(share / (1 - share)),
        "not-a-logarithm": lambda n, share: (n - 1) * share / (1 - share),
    },
)


def reach(windows):
    return sum(window - 1 for window in windows)


REACH = Exercise(
    id="long-range-2",
    solve=reach,
    cases=lambda rng: [([4, 4],), ([32] * 30,), ([1, 9, 1],), ([3, 8, 2, 17],), ([5],)],
    mistakes={
        "keys-not-places": sum,
        "places-seen": lambda windows: reach(windows) + 1,
        "widest": lambda windows: max(windows) - 1,
        "widest-times-layers": lambda windows: len(windows) * (max(windows) - 1),
        "product": lambda windows: int(np.prod(np.asarray(windows, dtype=float))),
        "last-layer": lambda windows: windows[-1] - 1,
        "one-too-few": lambda windows: sum(windows) - 1,
    },
)


def log_length_queries(q, trained):
    seen = np.arange(1, len(q) + 1)
    return q * (np.log(seen) / np.log(trained))[:, None]


LOG_LENGTH = Exercise(
    id="long-range-3",
    solve=log_length_queries,
    cases=lambda rng: [(np.ones((4, 1)), 2), (rng.normal(size=(7, 3)), 5), (rng.normal(size=(11, 2)), 100)],
    mistakes={
        "counted-from-zero": lambda q, trained: (
            q * (np.log(np.maximum(np.arange(len(q)), 1)) / np.log(trained))[:, None]
        ),
        "whole-length": lambda q, trained: q * np.log(len(q)) / np.log(trained),
        "trained-forgotten": lambda q, trained: q * np.log(np.arange(1, len(q) + 1))[:, None],
        "difference": lambda q, trained: q * np.log(np.arange(1, len(q) + 1) / trained)[:, None],
        "upside-down": lambda q, trained: (
            q * (np.log(trained) / np.log(np.maximum(np.arange(1, len(q) + 1), 2)))[:, None]
        ),
        "no-logarithm": lambda q, trained: q * (np.arange(1, len(q) + 1) / trained)[:, None],
        "root": lambda q, trained: q * np.sqrt(np.log(np.arange(1, len(q) + 1)) / np.log(trained))[:, None],
    },
)


def row_residual(x):
    return np.linalg.norm(x - x.mean(0)) / np.linalg.norm(x)


RESIDUAL = Exercise(
    id="long-range-4",
    solve=row_residual,
    cases=lambda rng: [
        (np.array([[1.0, 3.0], [3.0, 5.0]]),),
        (np.array([[2.0, -1.0], [-2.0, 1.0], [0.0, 6.0]]),),
        (rng.normal(1, 1, (7, 5)),),
    ],
    mistakes={
        "each-row-by-its-own-mean": lambda x: np.linalg.norm(x - x.mean(1, keepdims=True)) / np.linalg.norm(x),
        "one-mean-for-all": lambda x: np.linalg.norm(x - x.mean()) / np.linalg.norm(x),
        "squared": lambda x: row_residual(x) ** 2,
        "not-divided": lambda x: np.linalg.norm(x - x.mean(0)),
        "over-the-shared": lambda x: np.linalg.norm(x - x.mean(0)) / np.linalg.norm(np.tile(x.mean(0), (len(x), 1))),
        "first-row": lambda x: np.linalg.norm(x - x[0]) / np.linalg.norm(x),
        "what-is-shared": lambda x: np.linalg.norm(np.tile(x.mean(0), (len(x), 1))) / np.linalg.norm(x),
    },
    properties={"part-of-the-whole": lambda residual, x: 0 <= residual <= 1},
)


def decay_weights(a, b, c):
    n = len(a)
    weights = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            weights[i, j] = np.prod(a[j + 1 : i + 1]) * (c[i] @ b[j])
    return weights


def _decayed(rule, *, causal=True):
    """Build a wrong answer from the factor of (a, i, j) that it puts before c·b."""

    def weights(a, b, c):
        factor = np.array([[rule(a, i, j) for j in range(len(a))] for i in range(len(a))])
        return (np.tril(factor) if causal else factor) * (c @ b.T)

    return weights


DECAY = Exercise(
    id="long-range-5",
    solve=decay_weights,
    cases=lambda rng: [
        (np.array([0.9, 0.5, 0.2]), np.ones((3, 1)), np.ones((3, 1))),
        (rng.uniform(0.1, 1, 5), *rng.normal(size=(2, 5, 3))),
        (rng.uniform(0.1, 1, 7), *rng.normal(size=(2, 7, 2))),
    ],
    mistakes={
        "no-decay": _decayed(lambda a, i, j: 1.0),
        "own-decay-counted": _decayed(lambda a, i, j: np.prod(a[j : i + 1])),
        "last-decay-forgotten": _decayed(lambda a, i, j: np.prod(a[j + 1 : i]) if j < i else 1.0),
        "sum": _decayed(lambda a, i, j: a[j + 1 : i + 1].sum()),
        "from-the-start": _decayed(lambda a, i, j: np.prod(a[: i + 1])),
        "not-itself": lambda a, b, c: np.tril(decay_weights(a, b, c), -1),
        "looks-ahead": _decayed(lambda a, i, j: np.prod(a[min(i, j) + 1 : max(i, j) + 1]), causal=False),
        "b-and-c-exchanged": lambda a, b, c: decay_weights(a, c, b),
        "transposed": lambda a, b, c: decay_weights(a, b, c).T,
    },
    properties={"no-future": lambda weights, a, b, c: not np.triu(weights, 1).any()},
)

EXERCISES = (MARGIN, REACH, LOG_LENGTH, RESIDUAL, DECAY)
