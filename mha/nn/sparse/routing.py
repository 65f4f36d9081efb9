"""Routing attention: tokens meet in clusters that spherical k-means finds (Roy et al. 2021).

The meaning of `mha.reference`, computed for the pairs that meet: each cluster gathers its members and attends among
them, so time and memory follow clusters · cluster_size², which is n√n for √n clusters of √n tokens.
"""

import torch
from torch import nn

from mha import shapes
from mha.integers import count
from mha.masks.terms import causal_and_lengths
from mha.nn import checks, formula
from mha.nn.dot_product import attention
from mha.nn.sparse.top_k import highest
from mha.nn.strips import shallow_copy
from mha.nn.visible import table
from mha.random_matrices import gaussian

__all__ = ["Routing", "cluster_members", "moved_centroids", "routing_attention"]


def cluster_members(
    x: "Float[Tensor, '*b h n d']", centroids: "Float[Tensor, 'h c d']", *, cluster_size, lengths=None
) -> "Bool[Tensor, '*b h c n']":
    """Tell which tokens each cluster takes: the `cluster_size` of the highest cosine to its centroid.

    Every cluster takes as many, so a token can be in several or in none. Of equals the earlier token is taken.
    `lengths`, one per sample, leave out the padding behind.
    """
    checks.tensors(x=x, centroids=centroids)
    return highest(_cosines(x, centroids, lengths), count("cluster_size", cluster_size, least=1))


def routing_attention(
    q: "Float[Tensor, '*b h n d']",
    k: "Float[Tensor, '*b g n d']",
    v: "Float[Tensor, '*b g n e']",
    centroids: "Float[Tensor, 'h c d']",
    *,
    cluster_size,
    mask=None,
    scale=None,
) -> "Float[Tensor, '*b h n e']":
    """Attend to the keys of one's own clusters; average over the clusters in which a query sees a key, 0 if in none.

    `mask` is `masks.causal`, `masks.lengths(n)` or both. Vectors have length 1 for the choice of clusters only. The
    gradient passes through the attention in the clusters, not through the choice. With `masks.causal` no query sees a
    later key, yet each cluster chooses its members from the whole sequence, so a later token can take an earlier one's
    place: a model that generates has not all that it was trained with.
    """
    checks.tensors(q=q, k=k, v=v, centroids=centroids)
    call = shapes.check_routing(q, k, v, centroids, mask=mask, scale=scale)
    causal, lengths = causal_and_lengths(call.mask, "routing_attention")
    cluster_size = min(count("cluster_size", cluster_size, least=1), call.n_k)
    q, k, v = (_by_head(call, x) for x in (q, k, v))
    (q_slots, q_real), (k_slots, k_real) = (_members(x, centroids, cluster_size, lengths) for x in (q, k))
    see = q_real[..., :, None] & k_real[..., None, :]
    if causal:
        see = see & (k_slots[..., None, :] <= q_slots[..., :, None])
    see = see.flatten(1, 2)
    found = attention(
        *(_gathered(x, slots) for x, slots in ((q, q_slots), (k, k_slots), (v, k_slots))), mask=see, scale=call.scale
    )
    total = _returned(found, q_slots, call.n_q)
    number = _returned(see.any(-1, keepdim=True).to(found.dtype), q_slots, call.n_q)
    return (total / number.clamp(min=1)).reshape(*call.batch_shape, *total.shape[1:])


@torch.no_grad()
def moved_centroids(
    centroids: "Float[Tensor, 'h c d']", *tokens: "Float[Tensor, '*b h n d']", decay=0.999, lengths=None
) -> "Float[Tensor, 'h c d']":
    """Move each centroid towards the mean direction of the tokens nearest to it, and back to length 1.

    c ← unit(decay · c + (1 − decay) · mean): a step of spherical k-means on a moving average, outside of any
    gradient. `tokens` are the queries and the keys; a centroid that is nearest to no token stays.
    """
    old = unit(centroids)
    total, number = torch.zeros_like(old), old.new_zeros(*old.shape[:2], 1)
    for x in tokens:
        x = unit(x).to(old.dtype)
        if lengths is not None:
            x = torch.where(_real(x, lengths), x, 0.0)
        cosines = _cosines(x, old, lengths)
        nearest = cosines.argmax(-2, keepdim=True) == torch.arange(old.shape[1], device=x.device)[:, None]
        belongs = (nearest & (cosines > -torch.inf)).to(old.dtype)
        total += (belongs @ x).reshape(-1, *old.shape).sum(0)
        number += belongs.sum(-1, keepdim=True).reshape(-1, *number.shape).sum(0)
    return torch.where(number > 0, unit(decay * old + (1 - decay) * total / number.clamp(min=1)), old)


class Routing(nn.Module):
    """Routing attention as the core of a `MultiHeadAttention`: holds the centroids, and moves them while training.

    `centroids` is a buffer (heads, clusters, d_head) and moves in each forward pass of training mode, as the running
    statistics of a batch norm do.
    """

    supports = frozenset({"causal", "padding"})

    def __init__(self, num_heads, d_head, *, num_clusters, cluster_size, decay=0.999, seed=0):
        super().__init__()
        sizes = {"num_heads": num_heads, "num_clusters": num_clusters, "d_head": d_head}
        shape = [count(name, size, least=1) for name, size in sizes.items()]
        self.cluster_size, self.decay = count("cluster_size", cluster_size, least=1), checks.number("decay", decay)
        if not 0 <= decay <= 1:
            raise ValueError(f"decay is {decay}: expected a share from 0 to 1")
        drawn = torch.from_numpy(gaussian(seed, *shape))
        self.register_buffer("centroids", unit(drawn).to(torch.get_default_dtype()))

    def of_heads(self, heads):
        """Return the core of these heads alone, with centroids of its own."""
        made = shallow_copy(self)
        made.centroids = self.centroids[torch.tensor(heads, device=self.centroids.device)]
        return made

    def forward(
        self, q, k, v, *, mask=None, bias=None, scale=None, softcap=None, sinks=None, q_start=None, dropout=None
    ):
        """Return what `routing_attention` does; the options that it lacks are refused."""
        given = {"bias": bias, "softcap": softcap, "sinks": sinks, "q_start": q_start, "dropout": dropout}
        shapes.refuse("routing attention", **given)
        out = routing_attention(q, k, v, self.centroids, cluster_size=self.cluster_size, mask=mask, scale=scale)
        if self.training:
            lengths = causal_and_lengths(mask, "routing attention")[1]
            repeated = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
            self.centroids = moved_centroids(self.centroids, q, repeated, decay=self.decay, lengths=lengths)
        return out

    def extra_repr(self):
        num_heads, num_clusters, d_head = self.centroids.shape
        return f"{num_heads}, {d_head}, num_clusters={num_clusters}, cluster_size={self.cluster_size}"


def unit(x):
    """Return the vectors at length 1, in float32 at least, and zero where they are zero."""
    x = formula.wide(x)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.masked_fill(length == 0, 1.0)


def _cosines(x, centroids, lengths):
    """Return the cosine of each token to each centroid (…, h, c, n), −inf for padding."""
    with torch.no_grad():
        cosines = unit(centroids).to(formula.wide(x).dtype) @ unit(x).mT
    return cosines if lengths is None else cosines.masked_fill(~_real(x, lengths).mT, -torch.inf)


def _real(x, lengths):
    """Tell which tokens of x (…, h, n, d) are no padding: (…, 1, n, 1)."""
    lengths = table(lengths, x.device).reshape(*x.shape[:-3], 1, 1, 1)
    return torch.arange(x.shape[-2], device=x.device)[:, None] < lengths


def _by_head(call, x):
    """Return x as (batch, query heads, length, width)."""
    x = x.expand(*call.batch_shape, *x.shape[-3:]).reshape(call.batch, *x.shape[-3:])
    return x.repeat_interleave(call.num_heads // x.shape[1], 1)


def _members(x, centroids, size, lengths):
    """Return the slots that each cluster takes, in the order of the sequence, and which of them are no padding."""
    cosines = _cosines(x, centroids, lengths)
    slots = cosines.argsort(dim=-1, descending=True, stable=True)[..., :size].sort(-1).values
    return slots, cosines.gather(-1, slots) > -torch.inf


def _gathered(x, slots):
    """Take rows of x (b, h, n, d) by slots (b, h, c, w) into heads of their own: (b, h · c, w, d)."""
    rows = x.gather(-2, slots.flatten(-2)[..., None].expand(-1, -1, -1, x.shape[-1]))
    return rows.reshape(x.shape[0], slots.shape[1] * slots.shape[2], slots.shape[3], x.shape[-1])


def _returned(rows, slots, n):
    """Add rows (b, h · c, w, e) to where they come from: (b, h, n, e)."""
    where = slots.flatten(-2)[..., None].expand(-1, -1, -1, rows.shape[-1])
    flat = rows.reshape(where.shape)
    return flat.new_zeros(*slots.shape[:2], n, rows.shape[-1]).scatter_add(-2, where, flat)
