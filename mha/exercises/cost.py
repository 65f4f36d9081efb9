"""What attention costs: the pairs behind a causal mask, bytes moved, the roofline, and the cache beside the weights.

Lengths come as an array, and a count is right to the last digit.
"""

import numpy as np

from mha import cost
from mha.exercises.exercise import Exercise

EXACT = 1e-12


def causal_flops(n, d_head):
    return 4 * d_head * (n * (n + 1) // 2)


def composed_bytes(n, num_heads, d_head, itemsize):
    return itemsize * num_heads * (4 * n * d_head + 4 * n * n)


def least_seconds(flops, nbytes, peak, bandwidth):
    return np.maximum(flops / peak, nbytes / bandwidth)


def equal_length(num_kv_heads, num_heads, d_model, batch):
    return d_model * (num_heads + num_kv_heads) / (num_kv_heads * batch)


def fused_bytes(n, num_heads, d_head, itemsize):
    return itemsize * num_heads * 4 * n * d_head


LENGTHS = np.array([2, 3, 5, 1009]), np.array([7]), np.array([65537, 1000003])

CAUSAL = Exercise(
    id="cost-1",
    solve=causal_flops,
    cases=lambda rng: [(LENGTHS[0], 3), (LENGTHS[1], 2), (LENGTHS[2], 67)],
    mistakes={
        "all-pairs": lambda n, d: 4 * d * n * n,
        "half-of-all": lambda n, d: 4 * d * n * n / 2,
        "half-rounded": lambda n, d: 4 * d * (n * n // 2),
        "without-diagonal": lambda n, d: 4 * d * (n * (n - 1) // 2),
        "one-product": lambda n, d: 2 * d * (n * (n + 1) // 2),
        "multiply-adds": lambda n, d: d * (n * (n + 1) // 2),
        "no-width": lambda n, d: 4 * (n * (n + 1) // 2),
        "last-row": lambda n, d: 4 * d * n,
    },
    properties={"at-most-everything": lambda output, n, d_head: (output <= 4 * d_head * n * n).all()},
    tolerance=EXACT,
)

TRAFFIC = Exercise(
    id="cost-2",
    solve=composed_bytes,
    cases=lambda rng: [(LENGTHS[0], 3, 7, 2), (LENGTHS[1], 2, 11, 4), (LENGTHS[2], 5, 67, 2)],
    mistakes={
        "scores-only": lambda n, heads, d, size: size * heads * 4 * n * n,
        "passed-once": lambda n, heads, d, size: size * heads * (4 * n * d + n * n),
        "passed-twice": lambda n, heads, d, size: size * heads * (4 * n * d + 2 * n * n),
        "passed-three-times": lambda n, heads, d, size: size * heads * (4 * n * d + 3 * n * n),
        "fused": fused_bytes,
        "no-output": lambda n, heads, d, size: size * heads * (3 * n * d + 4 * n * n),
        "one-head": lambda n, heads, d, size: size * (4 * n * d + 4 * n * n),
        "scores-of-one-head": lambda n, heads, d, size: size * (4 * heads * n * d + 4 * n * n),
        "numbers": lambda n, heads, d, size: heads * (4 * n * d + 4 * n * n),
    },
    properties={"at-least-the-fused": lambda output, *sizes: (output >= fused_bytes(*sizes)).all()},
    tolerance=EXACT,
)

ROOFLINE = Exercise(
    id="cost-3",
    solve=least_seconds,
    cases=lambda rng: [
        (np.array([600.0, 600.0, 700.0]), np.array([20.0, 80.0, 10.0]), 300.0, 20.0),
        (7e12 * rng.random(5), 11e9 * rng.random(5), 312e12, 2039e9),
    ],
    mistakes={
        "sum": lambda flops, nbytes, peak, bandwidth: flops / peak + nbytes / bandwidth,
        "faster": lambda flops, nbytes, peak, bandwidth: np.minimum(flops / peak, nbytes / bandwidth),
        "operations-only": lambda flops, nbytes, peak, bandwidth: flops / peak,
        "bytes-only": lambda flops, nbytes, peak, bandwidth: nbytes / bandwidth,
        "rate": lambda flops, nbytes, peak, bandwidth: np.minimum(peak, flops / nbytes * bandwidth),
        "mean": lambda flops, nbytes, peak, bandwidth: (flops / peak + nbytes / bandwidth) / 2,
        "swapped": lambda flops, nbytes, peak, bandwidth: np.maximum(flops / bandwidth, nbytes / peak),
    },
    properties={
        "both-fit": lambda output, flops, nbytes, peak, bandwidth: (
            (output >= (1 - 1e-9) * flops / peak) & (output >= (1 - 1e-9) * nbytes / bandwidth)
        ).all()
    },
)

BALANCE = Exercise(
    id="cost-4",
    solve=equal_length,
    cases=lambda rng: [
        (np.array([1.0, 2.0, 6.0]), 6.0, 10.0, 3.0),
        (np.array([4.0, 12.0]), 12.0, 35.0, 7.0),
        (np.array([8.0]), 32.0, 4096.0, 1.0),
    ],
    mistakes={
        "keys-only": lambda groups, heads, d_model, batch: 2 * equal_length(groups, heads, d_model, batch),
        "no-batch": lambda groups, heads, d_model, batch: equal_length(groups, heads, d_model, 1),
        "query-heads": lambda groups, heads, d_model, batch: d_model * (groups + heads) / heads / batch,
        "no-output": lambda groups, heads, d_model, batch: d_model * (2 * groups + heads) / (2 * groups) / batch,
        "keys-and-values": lambda groups, heads, d_model, batch: d_model / batch + 0 * groups,
        "all-heads": lambda groups, heads, d_model, batch: 2 * d_model * heads / groups / batch,
        "upside-down": lambda groups, heads, d_model, batch: 1 / equal_length(groups, heads, d_model, batch),
    },
    properties={
        "falls-with-sharing": lambda output, groups, heads, d_model, batch: (np.diff(output) < 0).all(),
        "one-each": lambda output, groups, heads, d_model, batch: (
            np.abs(output[groups == heads] * batch - 2 * d_model) < 1e-6
        ).all(),
    },
)

SEQUENCE = cost.kv_cache_bytes(4096, 32, 128, num_layers=32)  # of Llama 2 7B, 16 bit
ROOM = 80 * 10**9 - 14 * 10**9  # what the weights leave

SEQUENCES = Exercise(
    id="cost-5",
    solve=lambda: ROOM // SEQUENCE,
    mistakes={
        "no-weights": lambda: 80 * 10**9 // SEQUENCE,
        "keys-only": lambda: 2 * ROOM // SEQUENCE,
        "one-layer": lambda: 32 * ROOM // SEQUENCE,
        "one-head": lambda: 32 * 32 * ROOM // SEQUENCE,
        "float32": lambda: ROOM // (2 * SEQUENCE),
        "rounded-up": lambda: ROOM // SEQUENCE + 1,
        "gibibytes": lambda: (80 - 14) * 2**30 // SEQUENCE,
    },
    tolerance=EXACT,
)

EXERCISES = (CAUSAL, TRAFFIC, ROOFLINE, BALANCE, SEQUENCES)
