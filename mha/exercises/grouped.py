"""Grouped heads and the key/value cache: who reads which head, what is stored, one step, and latent rows."""

import math

import numpy as np

from mha.exercises.dot_product import softmax
from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree
from mha.reference import attention, grouped_heads, pool_heads


def cache_bytes(n, num_layers, num_kv_heads, d_head, itemsize):
    return 2 * n * num_layers * num_kv_heads * d_head * itemsize


def decode_step(q, k, v, keys, values):
    keys, values = (np.concatenate([old, new[:, None]], axis=1) for old, new in ((keys, k), (values, v)))
    return attention(q[:, None], keys, values)[:, 0]


def absorbed_scores(q, w_k, latent):
    return np.einsum("hd,hcd,nc->hn", q, w_k, latent)


KEY_HEADS = Exercise(
    id="grouped-1",
    solve=grouped_heads,
    cases=lambda rng: [(6, 3), (8, 2), (5, 1), (7, 7), (1, 1)],
    mistakes={
        "dealt": lambda num_heads, num_kv_heads: np.arange(num_heads) % num_kv_heads,
        "divided-by-groups": lambda num_heads, num_kv_heads: np.arange(num_heads) // num_kv_heads,
        "reversed": lambda num_heads, num_kv_heads: grouped_heads(num_heads, num_kv_heads)[::-1],
        "own-heads": lambda num_heads, num_kv_heads: np.arange(num_heads),
        "one-per-group": lambda num_heads, num_kv_heads: np.arange(num_kv_heads),
        "counted-from-one": lambda num_heads, num_kv_heads: grouped_heads(num_heads, num_kv_heads) + 1,
    },
    properties={
        "equal-shares": lambda output, num_heads, num_kv_heads: (
            np.unique(output, return_counts=True)[1] == num_heads // num_kv_heads
        ).all(),
    },
)

BYTES = Exercise(
    id="grouped-2",
    solve=cache_bytes,
    cases=lambda rng: [
        (np.array([1.0, 7.0]), 3, 5, 11, 2),
        (np.array([4096.0, 131_071.0]), 61, 17, 127, 2),
        (np.array([13.0]), 2, 1, 3, 4),
    ],
    mistakes={
        "keys-only": lambda n, layers, heads, d, size: n * layers * heads * d * size,
        "queries-too": lambda n, layers, heads, d, size: 3 * n * layers * heads * d * size,
        "one-layer": lambda n, layers, heads, d, size: 2 * n * heads * d * size,
        "one-head": lambda n, layers, heads, d, size: 2 * n * layers * d * size,
        "numbers": lambda n, layers, heads, d, size: 2 * n * layers * heads * d,
        "bits": lambda n, layers, heads, d, size: 16 * n * layers * heads * d * size,
        "squared": lambda n, layers, heads, d, size: 2 * n**2 * layers * heads * d * size,
    },
    tolerance=1e-12,
)


def _step(h, n, d):
    def case(rng):
        return (*(rng.standard_normal((h, d)) for _ in range(3)), *(rng.standard_normal((h, n, d)) for _ in range(2)))

    return case


def _weighed(weights):
    """Build a wrong step from the weights that it gives to all values, (h, n + 1)."""

    def decode_step(q, k, v, keys, values):
        keys, values = (np.concatenate([old, new[:, None]], axis=1) for old, new in ((keys, k), (values, v)))
        return (weights(np.einsum("hd,hnd->hn", q, keys), q.shape[-1])[..., None] * values).sum(1)

    return decode_step


STEP = Exercise(
    id="grouped-3",
    solve=decode_step,
    cases=lambda rng: [_step(1, 1, 2)(rng), _step(3, 5, 7)(rng), _step(2, 0, 3)(rng)],
    mistakes={
        "without-itself": lambda q, k, v, keys, values: attention(q[:, None], keys, values)[:, 0],
        "only-itself": lambda q, k, v, keys, values: v.copy(),
        "first-key": lambda q, k, v, keys, values: np.concatenate([values, v[:, None]], axis=1)[:, 0],
        "no-scale": _weighed(lambda scores, d: softmax(scores)),
        "divided-by-width": _weighed(lambda scores, d: softmax(scores / d)),
        "mean": _weighed(lambda scores, d: np.full(scores.shape, 1 / scores.shape[1])),
        "softmax-over-heads": _weighed(lambda scores, d: softmax((scores / math.sqrt(d)).T).T),
        "not-normalised": _weighed(lambda scores, d: np.exp(scores / math.sqrt(d))),
        "new-key-old-value": lambda q, k, v, keys, values: decode_step(
            q, k, values[:, -1] if values.shape[1] else v, keys, values
        ),
    },
    properties={
        "alone": lambda output, q, k, v, keys, values: keys.shape[1] > 0 or agree(output, v, 1e-9),
    },
)

ABSORBED = Exercise(
    id="grouped-4",
    solve=absorbed_scores,
    cases=lambda rng: [
        (np.array([[1.0, 2.0]]), np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]), np.array([[1.0, 10.0, 100.0]])),
        (rng.standard_normal((3, 5)), rng.standard_normal((3, 7, 5)), rng.standard_normal((2, 7))),
        (rng.standard_normal((2, 5)), rng.standard_normal((2, 5, 5)), rng.standard_normal((11, 5))),
    ],
    mistakes={
        "reshaped": lambda q, w_k, latent: absorbed_scores(
            q, w_k.reshape(w_k.shape[0], w_k.shape[2], w_k.shape[1]).swapaxes(1, 2), latent
        ),
        "first-map": lambda q, w_k, latent: absorbed_scores(q, np.repeat(w_k[:1], len(q), 0), latent),
        "query-only": lambda q, w_k, latent: np.einsum("hd,hcd->hc", q, w_k),
        "scaled": lambda q, w_k, latent: absorbed_scores(q, w_k, latent) / math.sqrt(q.shape[-1]),
        "summed": lambda q, w_k, latent: absorbed_scores(q, w_k, latent).sum(0),
        "tokens-first": lambda q, w_k, latent: absorbed_scores(q, w_k, latent).T,
        "keys": lambda q, w_k, latent: np.einsum("hcd,nc->hnd", w_k, latent),
    },
    properties={
        "linear": lambda output, q, w_k, latent: agree(output[:, :1], absorbed_scores(q, w_k, latent[:1]), 1e-9),
    },
)


def _strips(w, num_heads):
    return w.reshape(len(w), num_heads, -1)


POOL = Exercise(
    id="grouped-5",
    solve=pool_heads,
    cases=lambda rng: [
        (2.0 ** np.arange(8)[None], 4, 2),
        (rng.standard_normal((5, 18)), 6, 2),
        (rng.standard_normal((7, 36)), 12, 3),
        (rng.standard_normal((3, 10)), 5, 1),
    ],
    mistakes={
        "dealt": lambda w, num_heads, num_kv_heads: (
            w.reshape(len(w), num_heads // num_kv_heads, num_kv_heads, -1).mean(1).reshape(len(w), -1)
        ),
        "summed": lambda w, num_heads, num_kv_heads: (
            pool_heads(w, num_heads, num_kv_heads) * (num_heads // num_kv_heads)
        ),
        "first-of-group": lambda w, num_heads, num_kv_heads: _strips(w, num_heads)[
            :, :: num_heads // num_kv_heads
        ].reshape(len(w), -1),
        "first-heads": lambda w, num_heads, num_kv_heads: _strips(w, num_heads)[:, :num_kv_heads].reshape(len(w), -1),
        "columns": lambda w, num_heads, num_kv_heads: w.reshape(len(w), -1, num_heads // num_kv_heads).mean(-1),
        "all-alike": lambda w, num_heads, num_kv_heads: np.tile(_strips(w, num_heads).mean(1), (1, num_kv_heads)),
        "not-joined": lambda w, num_heads, num_kv_heads: pool_heads(w, num_heads, num_kv_heads).reshape(
            len(w), num_kv_heads, -1
        ),
    },
    properties={
        "same-mean": lambda output, w, num_heads, num_kv_heads: agree(output.mean(), w.mean(), 1e-9),
    },
)

LATENT, MADE = 512, 128 + 128  # widths in DeepSeek-V2: the stored row; the key and the value that a head makes of it
MEET = LATENT * MADE / (2 * LATENT - MADE)

EXPAND = Exercise(
    id="grouped-6",
    solve=lambda: math.ceil(MEET),
    mistakes={
        "rounded-down": lambda: math.floor(MEET),
        "mixing-forgotten": lambda: math.ceil(LATENT * MADE / (LATENT - MADE / 2)),
        "keys-made-only": lambda: math.ceil(MEET / 2),
        "made-for-free": lambda: 1,
        "rotated-on-one-side": lambda: math.ceil(LATENT * MADE / (2 * LATENT - MADE - 64)),
        "rotated-mixed": lambda: math.ceil(LATENT * MADE / (2 * LATENT + 64 - MADE)),
        "all-heads": lambda: math.ceil(128 * MEET),
        "widths-alone": lambda: LATENT // 128,
    },
)

EXERCISES = (KEY_HEADS, BYTES, STEP, ABSORBED, POOL, EXPAND)
