"""Scaled dot-product attention, in the order of the equation.

Letters: b batch, h query head, g key head, i query, j key, d key width, e value width. `mask` is a Mask or a boolean
array, True = attend; `bias` is added; one of `sinks` a head is one more logit whose value is zero.
"""

from typing import NamedTuple

import numpy as np

from mha import shapes


class Stats(NamedTuple):
    """What a row of scores amounts to, each (b, h, i). See `attention_stats`."""

    lse: np.ndarray
    max_logit: np.ndarray
    entropy: np.ndarray


def attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> "Float[Array, '*b h i e']":
    """Mix the values of the visible keys, weighted by a softmax of q·k.   Book: {eq}`scaled-dot-product`.

    A query that sees no key gets 0. Without `q_start` the last query stands at the last (valid) key.
    """
    options = {"mask": mask, "scale": scale, "softcap": softcap, "q_start": q_start, "dropout": dropout}
    call = shapes.check(q, k, v, bias=bias, sinks=sinks, **options)
    scores = masked_scores(call, q, k, bias)
    weights = softmax(with_sinks(scores, sinks))[..., : call.n_k]
    if call.dropout is not None:
        weights = weights * call.dropout.factors(call.weights_shape)
    return mix(weights, repeat_heads(v, call), is_visible(scores))


def attention_weights(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
) -> "Float[Array, '*b h i j']":
    """Return how much each query takes from each key, before dropout.   Book: {eq}`attention-weights`.

    A row sums to 1; to less with a sink, which takes the rest; to 0 if the query sees no key.
    """
    call = shapes.check(q, k, mask=mask, bias=bias, scale=scale, softcap=softcap, sinks=sinks, q_start=q_start)
    return softmax(with_sinks(masked_scores(call, q, k, bias), sinks))[..., : call.n_k]


def attention_stats(q, k, v, *, bias=None, sinks=None, **options) -> "tuple[Float[Array, '*b h i e'], Stats]":
    """Return the output of `attention` and the `Stats` of its rows.   Book: {eq}`attention-stats`.

    lse: log of the sum of exponentials, sink included; −inf for a row without a key or a sink.
    max_logit: the largest visible score; −inf for a row without a key.
    entropy: of the weights divided by their sum, in nats, before dropout; 0 for a row without a key.
    """
    output = attention(q, k, v, bias=bias, sinks=sinks, **options)
    scores = masked_scores(shapes.check(q, k, v, bias=bias, sinks=sinks, **options), q, k, bias)
    weights = softmax(scores)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1.0))).sum(-1) + 0.0  # + 0.0: never −0
    return output, Stats(log_sum_exp(with_sinks(scores, sinks)), scores.max(-1, initial=-np.inf), entropy)


def softmax(scores: "Float[Array, '*b j']") -> "Float[Array, '*b j']":
    """Turn each row of scores into weights that sum to 1; a row of −inf into zeros.   Book: {eq}`softmax`."""
    scores = shapes.float64("scores", scores)
    exponentials = np.exp(scores - largest(scores))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / np.where(total == 0, 1.0, total)


def log_sum_exp(scores: "Float[Array, '*b j']") -> "Float[Array, '*b']":
    """Return the logarithm of the denominator of `softmax`; −inf for a row of −inf."""
    scores = shapes.float64("scores", scores)
    top = largest(scores)
    with np.errstate(divide="ignore"):  # log 0 = −inf is meant
        return (top + np.log(np.exp(scores - top).sum(-1, keepdims=True)))[..., 0]


def largest(scores):
    """Return the largest score of each row, or 0 where that is −inf: what may be subtracted before `exp`."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    return np.where(top == -np.inf, 0.0, top)


def masked_scores(call, q, k, bias):
    """Return scale · q·k, capped, biased, and −inf where a query may not see a key."""
    q, k = shapes.float64("q", q), repeat_heads(k, call)
    with np.errstate(invalid="ignore", over="ignore"):  # a hidden key may hold anything
        scores = call.scale * np.einsum("...id,...jd->...ij", q, k)
        if call.softcap is not None:
            scores = call.softcap * np.tanh(scores / call.softcap)
        if bias is not None:
            scores = np.where(bias == -np.inf, -np.inf, scores + np.asarray(bias, np.float64))
    see = shapes.visible(call)
    return scores if see is None else np.where(see, scores, -np.inf)


def is_visible(scores):
    return scores != -np.inf


def with_sinks(scores, sinks):
    """Append each head's sink to its rows of scores: one more key, with nothing to give."""
    if sinks is None:
        return scores
    column = np.broadcast_to(np.asarray(sinks, np.float64)[:, None, None], (*scores.shape[:-1], 1))
    return np.concatenate([scores, column], axis=-1)


def mix(weights, values, see):
    """Sum the values by their weights. What a row may not see never enters its sum, not even as 0 · NaN or NaN · 0."""
    weights, values = np.where(see, weights, 0.0), np.where(see.any(-2)[..., None], values, 0.0)
    if np.isfinite(values).all():
        return np.einsum("...ij,...je->...ie", weights, values)
    with np.errstate(invalid="ignore"):
        terms = weights[..., None] * values[..., None, :, :]
    return np.where(see[..., None], terms, 0.0).sum(-2)


def repeat_heads(x, call):
    """Give each query head its own copy of the key head that it reads: head h reads ⌊h · G / H⌋."""
    return np.repeat(np.asarray(x, np.float64), call.num_heads // call.num_kv_heads, axis=-3)
