"""Sigmoid attention: a weight is the sigmoid of one score, and no key takes from another (Ramapuram et al., 2025)."""

import numpy as np

from mha import shapes
from mha.reference.dot_product import is_visible, masked_scores, mix, repeat_heads


def sigmoid_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    *,
    offset=None,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> "Float[Array, '*b h i e']":
    """Sum the values of the visible keys, each weighted by σ(score + offset); a query that sees no key gets 0.

    The offset, a number, is −log n of the n keys that the row sees unless given: so many weights begin at a sum of
    about 1. The paper takes one n, the length of the sequence, for all rows: pass offset=−log(n). There is no
    denominator, so sinks are refused and no lse exists.
    """
    shapes.refuse("sigmoid attention", sinks=sinks)
    options = {"mask": mask, "bias": bias, "scale": scale, "softcap": softcap, "q_start": q_start}
    call = shapes.check(q, k, v, dropout=dropout, **options)
    weights, see = weighed(call, q, k, bias, offset)
    if call.dropout is not None:
        weights = weights * call.dropout.factors(call.weights_shape)
    return mix(weights, repeat_heads(v, call), see)


def sigmoid_weights(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    *,
    offset=None,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    q_start=None,
) -> "Float[Array, '*b h i j']":
    """Return the weights of `sigmoid_attention`, before dropout: each between 0 and 1, whatever the others are."""
    call = shapes.check(q, k, mask=mask, bias=bias, scale=scale, softcap=softcap, q_start=q_start)
    return weighed(call, q, k, bias, offset)[0]


def weighed(call, q, k, bias, offset):
    """Return the weights, and which pairs are visible."""
    scores = np.broadcast_to(masked_scores(call, q, k, bias), call.weights_shape)
    see = is_visible(scores)
    if offset is None:
        offset = -np.log(np.maximum(see.sum(-1, keepdims=True), 1))
    return np.exp(-np.logaddexp(0.0, -(scores + offset))), see  # the sigmoid, without an overflow
