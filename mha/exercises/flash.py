"""FlashAttention: one more tile of a softmax, tiles behind a causal mask, bytes moved, the gradient of the keys."""

import math

import numpy as np

from mha import cost, reference
from mha.exercises.dot_product import softmax
from mha.exercises.exercise import Exercise

EXACT = 1e-12


def take_in(top, total, scores):
    state = reference.Running(top, total, np.zeros((len(top), 0)))
    state = reference.online_softmax(state, scores, np.zeros((scores.shape[-1], 0)))
    return np.stack([state.top, state.total])


def causal_tiles(n, bm, bn):
    return np.array([sum(-(-min(end, length) // bn) for end in range(bm, length + bm, bm)) for length in n])


def bytes_moved(n, d_head, rows, itemsize):
    tiles = -(-n // rows)
    return itemsize * (2 * n * d_head + tiles * 2 * n * d_head) + 4 * n


def key_gradient(q, k, v, output, lse, d_output):
    gradients = reference.flash_backward(*(x[None] for x in (q, k, v, output, lse, d_output)))
    return gradients.k[0]


def compute_bound_memory():
    """Return what a square tile holds whose intensity, 2 r / s, is the ridge of one H100."""
    rows = math.ceil(cost.published_machines()["h100"].ridge)
    return rows * (128 * (3 * 2 + 4) + 4 * rows)


def _taken_in(new_top, new_total):
    """Build a wrong step from how it finds the largest score and the sum."""

    def take_in(top, total, scores):
        largest = new_top(top, scores)
        return np.stack([largest, new_total(top, total, scores, largest)])

    return take_in


def _largest(top, scores):
    return np.maximum(top, scores.max(-1))


def _exponentials(scores, top):
    return np.exp(scores - top[:, None]).sum(-1)


STEP = Exercise(
    id="flash-1",
    solve=take_in,
    cases=lambda rng: [
        (np.array([0.0, 2.0]), np.array([1.0, 1.5]), np.array([[1.0, 0.0], [1.0, 2.0]])),
        (rng.standard_normal(5), 1 + rng.random(5), rng.standard_normal((5, 3))),
        (np.full(3, -np.inf), np.zeros(3), rng.standard_normal((3, 4))),
        (np.array([900.0]), np.array([2.0]), np.array([[1000.0, 990.0]])),
    ],
    mistakes={
        "not-rescaled": _taken_in(_largest, lambda m, old, s, new: old + _exponentials(s, new)),
        "upside-down": _taken_in(_largest, lambda m, old, s, new: old * np.exp(new - m) + _exponentials(s, new)),
        "old-largest": _taken_in(_largest, lambda m, old, s, new: old + _exponentials(s, m)),
        "tile-largest": _taken_in(
            lambda m, s: s.max(-1), lambda m, old, s, new: old * np.exp(m - new) + _exponentials(s, new)
        ),
        "one-largest": _taken_in(
            lambda m, s: np.maximum(m, s.max()), lambda m, old, s, new: old * np.exp(m - new) + _exponentials(s, new)
        ),
        "new-part-only": _taken_in(_largest, lambda m, old, s, new: old * np.exp(m - new)),
        "not-shifted": _taken_in(_largest, lambda m, old, s, new: old * np.exp(m - new) + np.exp(s).sum(-1)),
        "new-rescaled-too": _taken_in(_largest, lambda m, old, s, new: (old + _exponentials(s, new)) * np.exp(m - new)),
    },
    properties={
        "never-falls": lambda found, top, total, scores: (found[0] >= top).all(),
        "sum-is-lse": lambda found, top, total, scores: np.isclose(
            found[0] + np.log(found[1]), np.logaddexp(top + np.log(total), reference.log_sum_exp(scores))
        ).all(),
    },
)

TILES = Exercise(
    id="flash-2",
    solve=causal_tiles,
    cases=lambda rng: [
        (np.array([4, 8]), 4, 4),
        (np.array([1, 2, 7, 8, 9, 64]), 8, 4),
        (np.array([33, 100, 1009]), 16, 32),
    ],
    mistakes={
        "all-tiles": lambda n, bm, bn: -(-n // bm) * -(-n // bn),
        "half": lambda n, bm, bn: -(-n // bm) * -(-n // bn) / 2,
        "half-rounded-up": lambda n, bm, bn: -(-(-(-n // bm) * -(-n // bn)) // 2),
        "square-tiles": lambda n, bm, bn: -(-n // bm) * (-(-n // bm) + 1) // 2,
        "full-tiles-only": lambda n, bm, bn: np.array([sum(i // bn for i in range(0, x, bm)) for x in n]),
        "first-row": lambda n, bm, bn: np.array([sum(i // bn + 1 for i in range(0, x, bm)) for x in n]),
        "ragged-edge-dropped": lambda n, bm, bn: np.array(
            [sum(-(-(i + bm) // bn) for i in range(0, x - bm + 1, bm)) for x in n]
        ),
        "beyond-the-last-key": lambda n, bm, bn: np.array(
            [sum(-(-(i + bm) // bn) for i in range(0, x, bm)) for x in n]
        ),
    },
    properties={
        "at-least-the-diagonal": lambda found, n, bm, bn: (found >= -(-n // max(bm, bn))).all(),
        "at-most-all": lambda found, n, bm, bn: (found <= -(-n // bm) * -(-n // bn)).all(),
    },
    tolerance=EXACT,
)

BYTES = Exercise(
    id="flash-3",
    solve=bytes_moved,
    cases=lambda rng: [
        (np.array([4, 8]), 2, 4, 2),
        (np.array([1, 7, 63, 64, 65, 1009]), 32, 64, 2),
        (np.array([100003]), 128, 128, 4),
    ],
    mistakes={
        "keys-once": lambda n, d, r, s: 4 * s * n * d + 4 * n,
        "no-lse": lambda n, d, r, s: s * (2 * n * d + -(-n // r) * 2 * n * d),
        "lse-of-itemsize": lambda n, d, r, s: s * (2 * n * d + -(-n // r) * 2 * n * d + n),
        "fraction-of-a-tile": lambda n, d, r, s: s * (2 * n * d + n / r * 2 * n * d) + 4 * n,
        "rounded-down": lambda n, d, r, s: s * (2 * n * d + n // r * 2 * n * d) + 4 * n,
        "keys-only": lambda n, d, r, s: s * (2 * n * d + -(-n // r) * n * d) + 4 * n,
        "queries-each-time": lambda n, d, r, s: s * (n * d + -(-n // r) * 3 * n * d) + 4 * n,
        "output-forgotten": lambda n, d, r, s: s * (n * d + -(-n // r) * 2 * n * d) + 4 * n,
        "each-row": lambda n, d, r, s: s * (2 * n * d + n * 2 * n * d) + 4 * n,
        "scores-too": lambda n, d, r, s: s * (2 * n * d + -(-n // r) * 2 * n * d + 4 * n * n) + 4 * n,
    },
    properties={
        "at-least-once": lambda found, n, d_head, rows, itemsize: (found >= 4 * itemsize * n * d_head).all(),
    },
    tolerance=EXACT,
)


def _key_gradient(d_scores):
    """Build a wrong gradient of the keys from a wrong gradient of the scores."""

    def key_gradient(q, k, v, output, lse, d_output):
        weights = np.exp(q @ k.T / math.sqrt(q.shape[-1]) - lse[:, None])
        delta = (d_output * output).sum(-1, keepdims=True)
        return d_scores(weights, d_output @ v.T, delta, d_output).T @ q / math.sqrt(q.shape[-1])

    return key_gradient


def _row(rng, n_q, n_k, d, e):
    """Return the arguments of one call of `key_gradient`."""
    q, k, v, d_output = (rng.standard_normal(shape) for shape in ((n_q, d), (n_k, d), (n_k, e), (n_q, e)))
    scores = q @ k.T / math.sqrt(d)
    return q, k, v, softmax(scores) @ v, np.log(np.exp(scores).sum(-1)), d_output


KEYS = Exercise(
    id="flash-4",
    solve=key_gradient,
    cases=lambda rng: [_row(rng, 2, 3, 4, 2), _row(rng, 5, 7, 3, 2), _row(rng, 5, 5, 5, 5)],
    mistakes={
        "no-delta": _key_gradient(lambda weights, d_weights, delta, d_output: weights * d_weights),
        "delta-without-output": _key_gradient(
            lambda weights, d_weights, delta, d_output: weights * (d_weights - d_output.sum(-1, keepdims=True))
        ),
        "delta-added": _key_gradient(lambda weights, d_weights, delta, d_output: weights * (d_weights + delta)),
        "delta-unweighted": _key_gradient(lambda weights, d_weights, delta, d_output: weights * d_weights - delta),
        "softmax-skipped": _key_gradient(lambda weights, d_weights, delta, d_output: d_weights - delta),
        "plain-mean": _key_gradient(
            lambda weights, d_weights, delta, d_output: weights * (d_weights - d_weights.mean(-1, keepdims=True))
        ),
        "no-scale": lambda q, k, v, output, lse, d_output: (
            key_gradient(q, k, v, output, lse, d_output) * math.sqrt(q.shape[-1])
        ),
        "lse-ignored": lambda q, k, v, output, lse, d_output: key_gradient(q, k, v, output, 0 * lse, d_output),
        "query-gradient": lambda q, k, v, output, lse, d_output: reference.attention_backward(
            q[None], k[None], v[None], d_output[None]
        ).q[0],
        "sign": lambda q, k, v, output, lse, d_output: -key_gradient(q, k, v, output, lse, d_output),
    },
    properties={
        "keys-balance": lambda found, q, k, v, output, lse, d_output: (abs(found.sum(0)) < 1e-9).all(),
    },
)

MEMORY = Exercise(
    id="flash-5",
    solve=compute_bound_memory,
    mistakes={
        "no-scores": lambda: 295 * 128 * 10,
        "keys-forgotten": lambda: 295 * (128 * (2 + 4) + 4 * 295),
        "values-forgotten": lambda: 295 * (128 * (2 * 2 + 4) + 4 * 295),
        "scores-in-16-bit": lambda: 295 * (128 * 10 + 2 * 295),
        "half-the-rows": lambda: 148 * (128 * 10 + 4 * 148),
        "twice-the-rows": lambda: 590 * (128 * 10 + 4 * 590),
        "rounded-to-a-power": lambda: 256 * (128 * 10 + 4 * 256),
        "numbers": lambda: 295 * (128 * 4 + 295),
    },
    tolerance=5e-3,
)

EXERCISES = (STEP, TILES, BYTES, KEYS, MEMORY)
