"""Talking heads: heads mix their scores before the softmax and their weights after it (Shazeer et al., 2020).

Letters beside those of `dot_product`: s head of the softmax, o head of the output; there are as many of all.
"""

import numpy as np

from mha import shapes
from mha.reference.dot_product import is_visible, masked_scores, mix, repeat_heads, softmax


def talking_heads_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    before: "Float[Array, 'h s']",
    after: "Float[Array, 's o']",
    *,
    mask=None,
    bias=None,
    scale=None,
    q_start=None,
) -> "Float[Array, '*b o i e']":
    """Mix the scores of all heads by `before`, take a softmax each, mix the weights by `after`.

    Mask and bias act between, on the softmax: what a head of the softmax may not see weighs nothing there. Mixed
    weights can be negative and need not sum to 1, so there is no lse, no sink and no cap.
    """
    call = shapes.check_talking_heads(q, k, v, before, after, mask=mask, bias=bias, scale=scale, q_start=q_start)
    before, after = shapes.float64("before", before), shapes.float64("after", after)
    with np.errstate(invalid="ignore"):  # a hidden key may hold anything
        scores = np.einsum("...hij,hs->...sij", masked_scores(call._replace(mask=None), q, k, None), before)
        if bias is not None:
            scores = np.where(bias == -np.inf, -np.inf, scores + bias)
    see = shapes.visible(call)
    scores = np.broadcast_to(scores if see is None else np.where(see, scores, -np.inf), call.weights_shape)
    weights = np.einsum("...sij,so->...oij", softmax(scores), after)
    seen = np.broadcast_to(is_visible(scores).any(-3, keepdims=True), scores.shape)
    return mix(weights, repeat_heads(v, call), seen)
