"""First look: reading numbers off attention weights, and catching a layer that looks ahead.

Weights have shape (…, i, j): any leading axes, queries down, keys across.
"""

import numpy as np

from mha.analysis.patterns import induction_score, previous_token_score, sink_score
from mha.exercises.exercise import Exercise


def attention_distance(weights):
    i, j = np.arange(weights.shape[-2])[:, None], np.arange(weights.shape[-1])
    return (weights * abs(i - j)).sum(-1).mean(-1)


def looks_ahead(layer, x, t):
    future = np.array(x)
    future[t:] = np.random.default_rng(0).standard_normal(future[t:].shape)
    return bool(np.any(layer(future)[:t] != layer(x)[:t]))


def _weights(rng, *shape, causal=True):
    """Draw rows that are positive and sum to one."""
    weights = rng.integers(1, 6, shape) * (np.tri(*shape[-2:]) if causal else 1.0)
    return weights / weights.sum(-1, keepdims=True)


def _causal_and_full(rng):
    """A small map that looks both ways, causal maps of several heads, and maps of several layers."""
    return [_weights(rng, 3, 3, causal=False), _weights(rng, 2, 5, 5), _weights(rng, 5, 3, 11, 11, causal=False)]


PREVIOUS_TOKEN = Exercise(
    id="first-look-1",
    solve=previous_token_score,
    cases=lambda rng: [(weights,) for weights in _causal_and_full(rng)],
    mistakes={
        "next-token": lambda weights: np.diagonal(weights, 1, -2, -1).mean(-1),
        "itself": lambda weights: np.diagonal(weights, 0, -2, -1).mean(-1),
        "row-zero": lambda weights: np.diagonal(weights, -1, -2, -1).sum(-1) / weights.shape[-1],
        "sum": lambda weights: np.diagonal(weights, -1, -2, -1).sum(-1),
        "one-number": lambda weights: np.diagonal(weights, -1, -2, -1).mean(),
        "first-axes": lambda weights: np.diagonal(weights, -1).mean(-1),
    },
    properties={"is-share": lambda score, weights: ((score >= 0) & (score <= 1)).all()},
)

SINK = Exercise(
    id="first-look-2",
    solve=sink_score,
    cases=lambda rng: [(weights,) for weights in _causal_and_full(rng)],
    mistakes={
        "row-zero": lambda weights: weights[..., :, 0].mean(-1),
        "first-query": lambda weights: weights[..., 0, 1:].mean(-1),
        "last-key": lambda weights: weights[..., 1:, -1].mean(-1),
        "sum": lambda weights: weights[..., 1:, 0].sum(-1),
        "one-number": lambda weights: weights[..., 1:, 0].mean(),
    },
    properties={"is-share": lambda score, weights: ((score >= 0) & (score <= 1)).all()},
)

INDUCTION = Exercise(
    id="first-look-3",
    solve=induction_score,
    cases=lambda rng: [
        (_weights(rng, 5, 5, causal=False), 2),
        (_weights(rng, 2, 7, 7), 3),
        (_weights(rng, 3, 13, 13), 5),
    ],
    mistakes={
        "same-token": lambda weights, period: np.diagonal(weights, -period, -2, -1).mean(-1),
        "first-copy": lambda weights, period: np.diagonal(weights, 1 - period, -2, -1).mean(-1),
        "one-too-early": lambda weights, period: np.diagonal(weights, -period - 1, -2, -1).mean(-1),
        "all-rows": lambda weights, period: (
            np.diagonal(weights, 1 - period, -2, -1)[..., 1:].sum(-1) / weights.shape[-1]
        ),
        "swapped": lambda weights, period: np.diagonal(weights, period - 1, -2, -1)[..., 1:].mean(-1),
        "one-number": lambda weights, period: np.diagonal(weights, 1 - period, -2, -1)[..., 1:].mean(),
    },
    properties={"is-share": lambda score, weights, period: ((score >= 0) & (score <= 1)).all()},
)


def _gaps(weights):
    return np.arange(weights.shape[-2])[:, None] - np.arange(weights.shape[-1])


DISTANCE = Exercise(
    id="first-look-4",
    solve=attention_distance,
    cases=lambda rng: [
        (_weights(rng, 3, 3, causal=False),),
        (_weights(rng, 2, 5, 5),),
        (_weights(rng, 3, 11, 11, causal=False),),
    ],
    mistakes={
        "signed": lambda weights: (weights * _gaps(weights)).sum(-1).mean(-1),
        "unweighted": lambda weights: np.broadcast_to(abs(_gaps(weights)), weights.shape).mean((-2, -1)),
        "mean-over-keys": lambda weights: (weights * abs(_gaps(weights))).mean((-2, -1)),
        "sum-over-queries": lambda weights: (weights * abs(_gaps(weights))).sum((-2, -1)),
        "squared": lambda weights: (weights * _gaps(weights) ** 2).sum(-1).mean(-1),
        "largest-only": lambda weights: abs(np.arange(weights.shape[-2]) - weights.argmax(-1)).mean(-1),
        "one-number": lambda weights: (weights * abs(_gaps(weights))).sum(-1).mean(),
    },
    properties={
        "is-length": lambda distance, weights: ((distance >= 0) & (distance <= weights.shape[-1] - 1)).all(),
    },
)


def running_mean(x):
    """Layer of the checks: each position averages itself and its past."""
    return np.cumsum(x, 0) / np.arange(1, len(x) + 1)[:, None]


def peeks_at_next(x):
    """Layer of the checks: each position also reads the one after it, and nothing beyond."""
    return x + np.concatenate([x[1:], x[:1] * 0])


def peeks_at_last(x):
    """Layer of the checks: each position reads the last one."""
    return x + x[-1]


def previous_token(x):
    """Layer of the checks: each position reads the one before it."""
    return np.concatenate([x[:1] * 0, x[:-1]])


def backwards(x):
    """Layer of the checks: position i reads position n − 1 − i."""
    return x[::-1].copy()


def mean_of_all(x):
    """Layer of the checks: each position reads all others."""
    return np.zeros_like(x) + x.mean(0)


def _replace_and_compare(layer, x, t, *, changed=None, compared=None, moved=np.any):
    changed, compared = (slice(t, None) if changed is None else changed), (compared or slice(t))
    other = np.array(x)
    other[changed] = np.random.default_rng(1).standard_normal(other[changed].shape)
    return bool(moved(layer(other)[compared] != layer(x)[compared]))


LOOKS_AHEAD = Exercise(
    id="first-look-5",
    solve=looks_ahead,
    cases=lambda rng: [
        (layer, rng.integers(-3, 4, shape).astype(float), t)
        for layer, shape, t in [
            (running_mean, (5, 2), 3),
            (mean_of_all, (5, 2), 3),
            (peeks_at_next, (7, 2), 2),
            (peeks_at_last, (7, 2), 2),
            (previous_token, (7, 2), 3),
            (backwards, (7, 2), 2),
            (backwards, (7, 2), 5),
            (running_mean, (11, 3), 1),
        ]
    ],
    mistakes={
        "compares-everything": lambda layer, x, t: _replace_and_compare(layer, x, t, compared=slice(None)),
        "compares-t": lambda layer, x, t: _replace_and_compare(layer, x, t, compared=slice(t + 1)),
        "changes-past": lambda layer, x, t: _replace_and_compare(layer, x, t, changed=slice(t)),
        "changes-last": lambda layer, x, t: _replace_and_compare(layer, x, t, changed=slice(len(x) - 1, None)),
        "changes-only-t": lambda layer, x, t: _replace_and_compare(layer, x, t, changed=slice(t, t + 1)),
        "all-must-move": lambda layer, x, t: _replace_and_compare(layer, x, t, moved=np.all),
        "inverted": lambda layer, x, t: not looks_ahead(layer, x, t),
    },
)

EXERCISES = (PREVIOUS_TOKEN, SINK, INDUCTION, DISTANCE, LOOKS_AHEAD)
