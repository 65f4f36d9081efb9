"""Routing attention: tokens meet in clusters that spherical k-means finds (Roy et al., 2021).

Letters beside those of `dot_product`: c cluster. Tokens attend to themselves: queries and keys are of one sequence.
Queries and keys choose clusters apart; give one tensor as both, as the paper does, and they choose together.
"""

import numpy as np

from mha import shapes
from mha.integers import count
from mha.masks.terms import causal_and_lengths
from mha.reference.dot_product import attention, repeat_heads
from mha.reference.sparse.top_k import highest


def cluster_members(
    x: "Float[Array, '*b h n d']", centroids: "Float[Array, 'h c d']", *, cluster_size, lengths=None
) -> "Bool[Array, '*b h c n']":
    """Tell which tokens each cluster takes: the `cluster_size` of the highest cosine to its centroid.

    Every cluster takes as many, so a token can be in several or in none. Of equals the earlier token is taken.
    `lengths`, one per sample, leave out the padding behind.
    """
    cosines = np.einsum("...hnd,hcd->...hcn", unit("x", x), unit("centroids", centroids))
    return highest(np.where(valid(x, lengths), cosines, -np.inf), count("cluster_size", cluster_size, least=1))


def routing_attention(
    q: "Float[Array, '*b h n d']",
    k: "Float[Array, '*b g n d']",
    v: "Float[Array, '*b g n e']",
    centroids: "Float[Array, 'h c d']",
    *,
    cluster_size,
    mask=None,
    scale=None,
) -> "Float[Array, '*b h n e']":
    """Attend to the keys of one's own clusters; average over the clusters in which a query sees a key, 0 if in none.

    `mask` is `masks.causal`, `masks.lengths(n)` or both. Vectors have length 1 for the choice of clusters only. With
    `masks.causal` no query sees a later key, yet each cluster chooses its members from the whole sequence, so a later
    token can take an earlier one's place: a model that generates has not all that it was trained with.
    """
    call = shapes.check_routing(q, k, v, centroids, mask=mask, scale=scale)
    _, lengths = causal_and_lengths(call.mask, "routing_attention")
    q, k, v = (np.broadcast_to(x, (*call.batch_shape, *x.shape[-3:])) for x in (q, k, v))
    k, v = repeat_heads(k, call), repeat_heads(v, call)
    asking, asked = (cluster_members(x, centroids, cluster_size=cluster_size, lengths=lengths) for x in (q, k))
    see = True if call.mask is None else shapes.visible(call)
    total, number = 0.0, 0
    for c in range(centroids.shape[-2]):
        pairs = asking[..., c, :, None] & asked[..., c, None, :] & see
        by_sample = np.broadcast_to(pairs, call.weights_shape).reshape(call.batch, *call.weights_shape[-3:])
        total = total + attention(q, k, v, mask=by_sample, scale=scale)
        number = number + pairs.any(-1, keepdims=True)
    return total / np.maximum(number, 1)


def moved_centroids(
    centroids: "Float[Array, 'h c d']", *tokens: "Float[Array, '*b h n d']", decay=0.999, lengths=None
) -> "Float[Array, 'h c d']":
    """Move each centroid towards the mean direction of the tokens nearest to it, and back to length 1.

    c ← unit(decay · c + (1 − decay) · mean): a step of spherical k-means on a moving average, outside of any
    gradient. `tokens` are the queries and the keys; a centroid that is nearest to no token stays.
    """
    old = unit("centroids", centroids)
    total, number = np.zeros_like(old), np.zeros((*old.shape[:2], 1))
    for x in tokens:
        real = valid(x, lengths)
        x = np.where(np.swapaxes(real, -1, -2), unit("tokens", x), 0.0)
        nearest = np.einsum("...hnd,hcd->...hcn", x, old).argmax(-2)[..., None, :]
        belongs = (nearest == np.arange(old.shape[1])[:, None]) & real
        total += np.einsum("...hcn,...hnd->...hcd", belongs, x).reshape(-1, *old.shape).sum(0)
        number += belongs.sum(-1, keepdims=True).reshape(-1, *number.shape).sum(0)
    moved = unit("moved", decay * old + (1 - decay) * total / np.maximum(number, 1))
    return np.where(number > 0, moved, old)


def unit(name, x):
    """Return the vectors at length 1, and zero where they are zero."""
    x = shapes.float64(name, x)
    length = np.sqrt((x * x).sum(-1, keepdims=True))
    return x / np.where(length == 0, 1.0, length)


def valid(x, lengths):
    """Tell which tokens are no padding, (…, 1, 1, n)."""
    if lengths is None:
        return np.ones((1, x.shape[-2]), bool)
    return np.arange(x.shape[-2]) < np.asarray(lengths).reshape(*x.shape[:-3], 1, 1, 1)
