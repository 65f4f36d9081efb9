"""What length costs: exponents, the walls of stored scores and of the cache, and where attention takes over.

Lengths and counts come as arrays, and an answer is right to the last digit.
"""

import numpy as np

from mha import cost
from mha.exercises.exercise import Exercise

EXACT = 1e-9


def exponents(n, values):
    return np.diff(np.log(values)) / np.diff(np.log(n))


def longest(num_heads, memory, itemsize):
    return np.floor(np.sqrt(memory / (2 * num_heads * itemsize)))


def token_seconds(n, weights, per_position, window, bandwidth):
    return (weights + np.minimum(n, window) * per_position) / bandwidth


def level(num_kv_heads, num_heads, d_head):
    return num_heads * (d_head + 1) / num_kv_heads


EXPONENTS = Exercise(
    id="scaling-limits-1",
    solve=exponents,
    cases=lambda rng: [
        (np.array([100.0, 300.0, 600.0]), np.array([2.0, 18.0, 36.0])),
        (np.array([128.0, 1024.0, 1331.0, 70000.0]), np.sort(rng.random(4)) + 0.1),
    ],
    mistakes={
        "ratios": lambda n, values: values[1:] / values[:-1],
        "doublings": lambda n, values: np.diff(np.log2(values)),
        "logarithms": lambda n, values: np.diff(np.log(values)),
        "plain-slope": lambda n, values: np.diff(values) / np.diff(n),
        "half-logarithmic": lambda n, values: np.diff(np.log(values)) / np.diff(n),
        "ratio-of-ratios": lambda n, values: (values[1:] / values[:-1]) / (n[1:] / n[:-1]),
        "upside-down": lambda n, values: np.diff(np.log(n)) / np.diff(np.log(values)),
        "from-the-origin": lambda n, values: np.log(values[1:]) / np.log(n[1:]),
    },
    properties={
        "between-neighbours": lambda output, n, values: (
            np.abs(values[:-1] * (n[1:] / n[:-1]) ** output - values[1:]) < 1e-6 * values[1:]
        ).all()
    },
    tolerance=EXACT,
)

LONGEST = Exercise(
    id="scaling-limits-2",
    solve=longest,
    cases=lambda rng: [
        (np.array([1, 2, 3]), 1000.0, 4),
        (np.array([1, 8, 12, 96]), 80e9, 2),
        (np.array([5]), 22e9, 4),
    ],
    mistakes={
        "one-square": lambda heads, memory, size: np.floor(np.sqrt(memory / (heads * size))),
        "with-gradients": lambda heads, memory, size: np.floor(np.sqrt(memory / (3 * heads * size))),
        "no-root": lambda heads, memory, size: np.floor(memory / (2 * heads * size)),
        "one-head": lambda heads, memory, size: np.floor(np.sqrt(memory / (2 * size))) + 0 * heads,
        "numbers": lambda heads, memory, size: np.floor(np.sqrt(memory / (2 * heads))),
        "not-whole": lambda heads, memory, size: np.sqrt(memory / (2 * heads * size)),
        "rounded-up": lambda heads, memory, size: np.ceil(np.sqrt(memory / (2 * heads * size))),
        "split-among-heads": lambda heads, memory, size: np.floor(np.sqrt(memory / (2 * size)) / heads),
    },
    properties={
        "fits": lambda output, heads, memory, size: (2 * heads * size * output**2 <= memory).all(),
        "one-more-fails": lambda output, heads, memory, size: (2 * heads * size * (output + 1) ** 2 > memory).all(),
    },
    tolerance=EXACT,
)

TOKEN = Exercise(
    id="scaling-limits-3",
    solve=token_seconds,
    cases=lambda rng: [
        (np.array([0, 3, 10, 40]), 100.0, 7.0, 10, 50.0),
        (np.array([1000, 100000]), 14e9, 131072.0, 4096, 3350e9),
    ],
    mistakes={
        "no-window": lambda n, weights, each, window, bandwidth: (weights + n * each) / bandwidth,
        "always-full": lambda n, weights, each, window, bandwidth: (weights + window * each) / bandwidth + 0 * n,
        "larger": lambda n, weights, each, window, bandwidth: (weights + np.maximum(n, window) * each) / bandwidth,
        "no-weights": lambda n, weights, each, window, bandwidth: np.minimum(n, window) * each / bandwidth,
        "weights-each-time": lambda n, weights, each, window, bandwidth: (
            np.minimum(n, window) * (weights + each) / bandwidth
        ),
        "bytes": lambda n, weights, each, window, bandwidth: weights + np.minimum(n, window) * each,
        "upside-down": lambda n, weights, each, window, bandwidth: bandwidth / (weights + np.minimum(n, window) * each),
        "side-by-side": lambda n, weights, each, window, bandwidth: (
            np.maximum(weights, np.minimum(n, window) * each) / bandwidth
        ),
    },
    properties={
        "flat-behind-the-window": lambda output, n, weights, each, window, bandwidth: (
            np.ptp(output[n >= window]) == 0 if (n >= window).any() else True
        )
    },
    tolerance=EXACT,
)

LEVEL = Exercise(
    id="scaling-limits-4",
    solve=level,
    cases=lambda rng: [
        (np.array([1.0, 2.0, 6.0]), 6.0, 5.0),
        (np.array([8.0, 32.0]), 32.0, 128.0),
        (np.array([3.0]), 12.0, 64.0),
    ],
    mistakes={
        "same-precision": lambda groups, heads, d: heads * (d + 1) / groups / 2,
        "keys-only": lambda groups, heads, d: 2 * heads * (d + 1) / groups,
        "no-denominator": lambda groups, heads, d: heads * d / groups,
        "grouping-forgotten": lambda groups, heads, d: d + 1 + 0 * groups,
        "cache-alone": lambda groups, heads, d: 4 * groups * d + 0 * heads,
        "one-head": lambda groups, heads, d: (d + 1) / groups,
        "upside-down": lambda groups, heads, d: groups / (heads * (d + 1)),
        "square-for-column": lambda groups, heads, d: heads * d * (d + 1) / groups,
    },
    properties={
        "falls-with-key-heads": lambda output, groups, heads, d: (np.diff(output) < 0).all(),
    },
    tolerance=EXACT,
)

LLAMA = cost.published_models()["llama-3-8b"]
WEIGHTS = LLAMA.parameters() + LLAMA.feed_forward_parameters()  # two operations each, for a position
COLUMNS = LLAMA.num_layers * LLAMA.num_heads * LLAMA.d_head  # four operations each, for a pair

TAKES_OVER = Exercise(
    id="scaling-limits-5",
    solve=lambda: WEIGHTS / COLUMNS,
    mistakes={
        "no-mask": lambda: WEIGHTS / COLUMNS / 2,
        "projections-only": lambda: LLAMA.parameters() / COLUMNS,
        "feed-forward-only": lambda: LLAMA.feed_forward_parameters() / COLUMNS,
        "two-widths": lambda: 2 * LLAMA.d_model,
        "six-widths": lambda: 6 * LLAMA.d_model,
        "no-gate": lambda: WEIGHTS / COLUMNS - LLAMA.d_mlp,
        "keys-for-all": lambda: 4 * LLAMA.d_model + 3 * LLAMA.d_mlp,
        "one-product": lambda: 2 * WEIGHTS / COLUMNS,
        "multiply-adds": lambda: WEIGHTS / COLUMNS / 4,
        "one-layer-against-all": lambda: LLAMA.num_layers * WEIGHTS / COLUMNS,
    },
    tolerance=1e-4,
)

EXERCISES = (EXPONENTS, LONGEST, TOKEN, LEVEL, TAKES_OVER)
