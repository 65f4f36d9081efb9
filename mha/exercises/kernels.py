"""Kernels: kinds of tiles, merging parts of a softmax, linear attention in chunks, pages of a cache, and the ridge."""

import math

import numpy as np

from mha import cost, reference
from mha.exercises.exercise import Exercise

EXACT = 1e-12


def count_tiles(see, rows, columns):
    n_q, n_k = see.shape
    padded = np.pad(see, [(0, -n_q % rows), (0, -n_k % columns)])
    tiles = padded.reshape(len(padded) // rows, rows, -1, columns)
    full, some = tiles.all((1, 3)).sum(), tiles.any((1, 3)).sum()
    return np.array([full, some - full, tiles.shape[0] * tiles.shape[2] - some])


def merge_parts(outputs, lses):
    return reference.merge(outputs, lses)[0]


def chunked(q, k, v, chunk):
    return reference.chunked_linear_attention(q[None], k[None], v[None], chunk=chunk)[0][0]


def read_pages(pages, page_row, length):
    place, slot = np.divmod(np.arange(length), pages.shape[1])
    return pages[page_row[place], slot]


def drafts():
    """Return how many tokens a step make the intensity t · h / g reach the ridge of one H100."""
    return math.ceil(cost.published_machines()["h100"].ridge * 8 / 64)


def _whole_tiles(see, rows, columns):
    """Return the counts of the complete tiles alone."""
    n_q, n_k = see.shape
    return count_tiles(see[: n_q - n_q % rows, : n_k - n_k % columns], rows, columns)


def _edge_may_be_full(see, rows, columns):
    n_q, n_k = see.shape
    padded = np.pad(see, [(0, -n_q % rows), (0, -n_k % columns)], mode="edge")
    return np.array([count_tiles(padded, rows, columns)[0], *_rest(see, padded, rows, columns)])


def _rest(see, padded, rows, columns):
    full, skipped = count_tiles(padded, rows, columns)[0], count_tiles(see, rows, columns)[2]
    return count_tiles(see, rows, columns).sum() - full - skipped, skipped


TILES = Exercise(
    id="kernels-1",
    solve=count_tiles,
    cases=lambda rng: [
        (np.tri(4, dtype=bool), 2, 2),
        (np.tri(7, 10, 3, dtype=bool), 3, 2),
        (np.abs(np.arange(20)[:, None] - np.arange(17)) < 4, 4, 3),
        (np.ones((5, 6), bool), 2, 4),
    ],
    mistakes={
        "edge-is-full": _edge_may_be_full,
        "edge-dropped": _whole_tiles,
        "visible-not-partial": lambda see, r, c: (
            count_tiles(see, r, c) + np.array([0, 1, 0]) * count_tiles(see, r, c)[0]
        ),
        "partial-is-full": lambda see, r, c: np.array([count_tiles(see, r, c)[:2].sum(), 0, count_tiles(see, r, c)[2]]),
        "sides-exchanged": lambda see, r, c: count_tiles(see, c, r),
        "polarity": lambda see, r, c: count_tiles(~see, r, c),
        "order-reversed": lambda see, r, c: count_tiles(see, r, c)[::-1],
        "pairs": lambda see, r, c: np.array([see.sum(), 0, (~see).sum()]),
        "shares": lambda see, r, c: count_tiles(see, r, c) / count_tiles(see, r, c).sum(),
    },
    properties={
        "all-tiles": lambda found, see, rows, columns: (
            found.sum() == -(-see.shape[0] // rows) * -(-see.shape[1] // columns)
        ),
    },
    tolerance=EXACT,
)


def _parts(rng, parts, rows, width, *, shift=0.0):
    lses = rng.standard_normal((parts, rows)) + shift
    return rng.standard_normal((parts, rows, width)), lses


def _with_an_unseen_part(rng):
    outputs, lses = _parts(rng, 3, 4, 2)
    outputs[1, 2], lses[1, 2] = 0.0, -np.inf
    return outputs, lses


def _shared_by(share):
    """Build a wrong merge from what each part counts by."""
    return lambda outputs, lses: (share(lses)[..., None] * outputs).sum(0)


def _normalised(weights):
    return weights / weights.sum(0)


MERGE = Exercise(
    id="kernels-2",
    solve=merge_parts,
    cases=lambda rng: [
        (np.array([[[7 / 3]], [[14.0]]]), np.log([[3.0], [4.0]])),
        _parts(rng, 4, 3, 5),
        _with_an_unseen_part(rng),
        _parts(rng, 3, 2, 2, shift=1000.0),
    ],
    mistakes={
        "mean": lambda outputs, lses: outputs.mean(0),
        "sum": lambda outputs, lses: outputs.sum(0),
        "lse-as-weight": _shared_by(lambda lses: np.where(np.isfinite(lses), lses, 0)),
        "lse-shares": _shared_by(lambda lses: _normalised(np.where(np.isfinite(lses), lses, 0))),
        "not-normalised": _shared_by(lambda lses: np.exp(lses - lses.max(0))),
        "over-the-queries": _shared_by(lambda lses: _normalised(np.exp(lses - lses.max(1, keepdims=True)).T).T),
        "overflow": _shared_by(lambda lses: _normalised(np.where(lses > 700, np.nan, np.exp(np.minimum(lses, 700))))),
        "upside-down": _shared_by(lambda lses: _normalised(np.exp(lses.min(0) - lses))),
        "best-part": _shared_by(lambda lses: (lses == lses.max(0)) * 1.0),
        "base-2": _shared_by(lambda lses: _normalised(np.exp2(lses - lses.max(0)))),
    },
    properties={
        "between": lambda found, outputs, lses: (
            (found <= outputs.max(0) + 1e-9) & (found >= outputs.min(0) - 1e-9)
        ).all(),
    },
)


def _chunks(within, *, read=True, late=False, keep=True):
    """Build a wrong chunked form: what the pairs within a chunk give, and what is done to the state."""

    def chunked(q, k, v, chunk):
        state, parts = np.zeros((k.shape[1], v.shape[1])), []
        for begin in range(0, len(q), chunk):
            rows = slice(begin, begin + chunk)
            added = k[rows].T @ v[rows]
            seen = state + added if late else state
            parts.append(read * (q[rows] @ seen) + within(q[rows] @ k[rows].T) @ v[rows])
            state = state + added if keep else added
        return np.concatenate(parts)

    return chunked


CHUNKS = Exercise(
    id="kernels-3",
    solve=chunked,
    cases=lambda rng: [
        (*(np.array(x, float)[:, None] for x in ([1, 1, 2, 1], [1, 2, 1, 3], [1, 0, 2, 1])), 2),
        (*rng.standard_normal((3, 7, 3)), 3),
        (*rng.standard_normal((3, 12, 2)), 4),
        (*rng.standard_normal((3, 5, 2)), 8),
    ],
    mistakes={
        "no-state": _chunks(np.tril, read=False),
        "no-mask": _chunks(lambda pairs: pairs),
        "no-pairs": _chunks(np.zeros_like),
        "itself-hidden": _chunks(lambda pairs: np.tril(pairs, -1)),
        "added-first": _chunks(np.tril, late=True),
        "one-chunk-back": _chunks(np.tril, keep=False),
        "future": _chunks(np.triu),
        "softmax": _chunks(
            lambda pairs: _normalised(np.exp(np.where(np.tri(len(pairs)) > 0, pairs, -np.inf)).T).T, read=True
        ),
        "not-causal": lambda q, k, v, chunk: q @ (k.T @ v),
    },
    properties={
        "first-token": lambda found, q, k, v, chunk: (abs(found[0] - (q[0] @ k[0]) * v[0]) < 1e-9).all(),
    },
)


def _pages(rng, count, slots, width, page_row, length):
    return rng.standard_normal((count, slots, width)), np.array(page_row), length


PAGES = Exercise(
    id="kernels-4",
    solve=read_pages,
    cases=lambda rng: [
        (np.arange(6.0).reshape(3, 2, 1), np.array([2, 0]), 3),
        _pages(rng, 5, 4, 3, [4, 1, 3], 10),
        _pages(rng, 4, 3, 2, [1, 3, 0, 2], 12),
        _pages(rng, 6, 5, 2, [5, 2, 0, 0, 0], 6),
    ],
    mistakes={
        "table-ignored": lambda pages, row, n: pages.reshape(-1, pages.shape[2])[:n],
        "place-and-slot-exchanged": lambda pages, row, n: pages[
            row[np.arange(n) % pages.shape[1] % len(row)], np.arange(n) // pages.shape[1] % pages.shape[1]
        ],
        "table-inverted": lambda pages, row, n: read_pages(pages, np.resize(np.argsort(row), len(row)), n),
        "length-rounded-down": lambda pages, row, n: np.concatenate(
            [read_pages(pages, row, n - n % pages.shape[1]), np.zeros((n % pages.shape[1], pages.shape[2]))]
        ),
        "last-rows": lambda pages, row, n: pages[row].reshape(-1, pages.shape[2])[-n:],
        "first-slots": lambda pages, row, n: np.resize(pages[row][:, 0], (n, pages.shape[2])),
        "slots-backwards": lambda pages, row, n: read_pages(pages[:, ::-1], row, n),
    },
    properties={
        "first-row": lambda found, pages, page_row, length: (abs(found[0] - pages[page_row[0], 0]) < 1e-9).all(),
    },
    tolerance=EXACT,
)

DRAFTS = Exercise(
    id="kernels-5",
    solve=drafts,
    mistakes={
        "no-sharing": lambda: 295,
        "all-query-heads": lambda: math.ceil(295 / 64),
        "rounded-down": lambda: 36,
        "bytes-of-keys-only": lambda: math.ceil(295 / 16),
        "one-byte": lambda: 74,
        "multiplied": lambda: 295 * 8,
    },
    tolerance=1e-3,
)

EXERCISES = (TILES, MERGE, CHUNKS, PAGES, DRAFTS)
