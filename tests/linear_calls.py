"""Calls of linear attention, and how far two correct evaluations of one can lie apart."""

import numpy as np

from mha import reference
from rounding import EPS

OPTIONS = ["nothing", "state", "decay", "decay of heads", "both"]


def draw(n, *, batch=(2,), num_heads=3, d=5, e=7, seed=0):
    """Return q, k, v, and the options by name."""
    rng = np.random.default_rng((seed, n))
    lead = *batch, num_heads
    q, k, v = (rng.standard_normal((*lead, n, width)) for width in (d, d, e))
    state, log_decay = rng.standard_normal((*lead, d, e)), -rng.exponential(0.3, (*lead, n))
    by_head = -np.linspace(0.01, 0.5, num_heads)[:, None]
    options = [{}, {"state": state}, {"log_decay": log_decay}, {"log_decay": by_head}]
    options.append({"state": state, "log_decay": log_decay})
    return (q, k, v), dict(zip(OPTIONS, options, strict=True))


def bounds(q, k, v, *, state=None, log_decay=None, eps=EPS):
    """Return the bounds for the output and for the last state of two evaluations.

    Every form sums the same products, each of four or five factors, in an order of its own: 2 · (d + n + 8) roundings
    of terms whose sizes are those of |q|, |k|, |v|. A factor e^x errs by as much as its x, a sum of up to n logarithms.
    """
    sizes = [np.abs(np.asarray(x, np.float64)) for x in (q, k, v)]
    state = None if state is None else np.abs(state)
    output, last = reference.parallel_linear_attention(*sizes, state=state, log_decay=log_decay)
    n, d = q.shape[-2:]
    forgotten = 0.0 if log_decay is None else n * min(746.0, float(np.abs(log_decay).max(initial=0.0)))
    relative = 2 * eps * (d + n + 8 + n * forgotten)
    return relative * output, relative * last


def draw_gated(n, *, batch=(2,), num_heads=3, d=5, e=7, seed=0):
    """Return q, k, v and log_gate, and a state."""
    (q, k, v), options = draw(n, batch=batch, num_heads=num_heads, d=d, e=e, seed=seed)
    log_gate = -np.random.default_rng((seed, n, 1)).exponential(0.3, q.shape)
    return (q, k, v, log_gate), options["state"]["state"]


def draw_delta(n, *, batch=(2,), num_heads=3, d=5, e=7, seed=0):
    """Return q, k of norm 1, v and beta in (0, 1], and the options by name.

    With them every step shrinks the state or leaves its norm, so that no error grows: of two evaluations the difference
    is at most the roundings of a step times the number of steps. 1e-12 is 9000 ε, for n ≤ 40 tokens of width 5.
    """
    (q, k, v), options = draw(n, batch=batch, num_heads=num_heads, d=d, e=e, seed=seed)
    beta = 1 - np.random.default_rng((seed, n, 2)).random(q.shape[:-1])
    return (q, k / np.linalg.norm(k, axis=-1, keepdims=True), v, beta), options


def draw_space(n, *, num_heads=6, num_groups=2, d=5, e=7, seed=0):
    """Return x, dt, A, B and C of a selective state space, D, and a state."""
    rng = np.random.default_rng((seed, n, 3))
    x, dt = rng.standard_normal((2, num_heads, n, e)), np.log1p(np.exp(rng.standard_normal((2, num_heads, n))))
    B, C = rng.standard_normal((2, 2, num_groups, n, d))
    A, D = -rng.exponential(0.5, num_heads), rng.standard_normal(num_heads)
    return (x, dt, A, B, C), D, rng.standard_normal((2, num_heads, d, e))
