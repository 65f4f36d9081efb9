"""Calls of state spaces, and transformers' layers to compare with."""

import numpy as np

SIZES = {"hidden_size": 14, "num_heads": 4, "head_dim": 7, "state_size": 5, "n_groups": 2, "chunk_size": 4, "expand": 2}


def draw_scan(n, *, channels=3, width=5, batch=(2,), seed=0):
    """Return x, dt, A, B and C of a selective scan, D, and a state."""
    rng = np.random.default_rng((seed, n, 4))
    x, dt = rng.standard_normal((*batch, channels, n)), np.log1p(np.exp(rng.standard_normal((*batch, channels, n))))
    B, C = rng.standard_normal((2, *batch, n, width))
    A, D = -np.exp(rng.standard_normal((channels, width))), rng.standard_normal(channels)
    return (x, dt, A, B, C), D, rng.standard_normal((*batch, channels, width))


def part_of(given, part):
    """Return the arguments of a scan for some of its tokens."""
    x, dt, A, B, C = given
    return x[..., part], dt[..., part], A, B[..., part, :], C[..., part, :]


def scan_by_hand(x, dt, A, B, C, D, state):
    """Gu and Dao (2023), equations 2a and 2b of one sample, channel by channel: Ā = e^(ΔA), B̄ = ΔB."""
    y, last = np.empty(x.shape), np.empty(state.shape)
    for c in range(len(x)):
        h = state[c]
        for t in range(x.shape[1]):
            h = np.diag(np.exp(dt[c, t] * A[c])) @ h + dt[c, t] * B[t] * x[c, t]
            y[c, t] = C[t] @ h + D[c] * x[c, t]
        last[c] = h
    return y, last
