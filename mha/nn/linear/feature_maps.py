"""Attention by features: φ(q) meets the sum of φ(k) vᵀ over the keys, not the keys (Katharopoulos et al. 2020).

Same meaning as `mha.reference`, which forms the weights. Here time and memory are proportional to the length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from mha.approximations import ask
from mha.nn import checks
from mha.nn.formula import alike, wide
from mha.nn.linear.recurrent import linear_average
from mha.nn.linear.visible_keys import hidden_as_zeros, visible_keys
from mha.nn.modes import own_precision
from mha.options import hinted

__all__ = ["FeatureAttention", "elu_plus_one", "relu", "softmax_features", "squared_relu"]


def elu_plus_one(x: "Float[Tensor, '*b d']") -> "Float[Tensor, '*b d']":
    """Return x + 1 where x is positive and eˣ elsewhere: never 0 (Katharopoulos et al. 2020)."""
    return F.elu(x) + 1


def relu(x: "Float[Tensor, '*b d']") -> "Float[Tensor, '*b d']":
    """Return x where it is positive and 0 elsewhere: a query that meets no key in a positive entry gets 0."""
    return F.relu(x)


def squared_relu(x: "Float[Tensor, '*b d']") -> "Float[Tensor, '*b d']":
    """Return x² where x is positive and 0 elsewhere: weights that differ more, as those of a softmax do."""
    return F.relu(x) ** 2


def softmax_features(x: "Float[Tensor, '*b d']") -> "Float[Tensor, '*b m']":
    """Return the softmax of x over its entries beside that of −x: m = 2d (Zhang et al. 2024, Hedgehog).

    There x is a learned projection of q or k, trained so that the weights come near to those of a softmax.
    """
    return torch.stack([x, -x], -2).softmax(-1).flatten(-2)


@dataclass(frozen=True)
class FeatureAttention:
    """A core whose weights are in proportion to φ(q)·φ(k), with `feature_map` for φ: nothing negative.

    It has no scale, and no softmax that would need one. A query whose weights are all 0 gets 0. This is no Module: a
    `feature_map` that learns must be registered where its parameters are to be found.
    Book: {eq}`linear-attention`
    """

    feature_map: Callable = elu_plus_one
    supports = frozenset({"causal", "padding", "cross"})

    @hinted
    def __call__(self, q, k, v, *, scale=None, **options):
        """Return what `mha.nn.attention` returns with these weights."""
        if scale is not None:
            raise ValueError(f"scale is {scale}: expected None, for the weights are φ(q)·φ(k); scale q beforehand")
        checks.tensors(q=q, k=k, v=v)
        asked = ask(self, q, k, v, **options)
        dtype = v.dtype
        with own_precision(q):
            shown = visible_keys(asked, q.device)
            k, v = hidden_as_zeros(shown, *map(wide, alike(k, v)))
            (k,) = hidden_as_zeros(shown, self.feature_map(k))
            return average(asked, self.feature_map(wide(q)), k, v).to(dtype)


def average(asked, q, k, v, log_decay=None):
    """Return the means of the values by the weights q·k of features (…, n, m), query heads reading their group's keys.

    Causal, `log_decay` (…, g, j) says what each key leaves of those before it, besides.
    """
    call = asked.call
    q = q.unflatten(-3, (call.num_kv_heads, call.num_heads // call.num_kv_heads))
    k, v = k.unsqueeze(-3), v.unsqueeze(-3)
    if asked.causal:
        log_decay = None if log_decay is None else log_decay.unsqueeze(-2)
        return _causal_average(call, q, k, v, log_decay).flatten(-4, -3)
    both = q @ (k.mT @ F.pad(v, (0, 1), value=1.0))
    total = both[..., -1:]
    return (both[..., :-1] / total.masked_fill(total == 0, 1.0)).masked_fill(total == 0, 0.0).flatten(-4, -3)


def _causal_average(call, q, k, v, log_decay):
    """Return the running average, read where the queries stand: what is missing in front and behind is zeros."""
    n_q, n_k, start = call.n_q, call.n_k, call.q_start
    if isinstance(start, int) and start == 0 and n_q == n_k:
        return linear_average(q, k, v, log_decay=log_decay)[0]
    if not n_q or not n_k:
        return v.new_zeros((*call.batch_shape, *q.shape[-4:-1], v.shape[-1]))
    start = torch.as_tensor(start, device=q.device).clamp(-n_q, n_k)  # farther out a query sees nothing, or all
    lead = call.batch_shape
    q, start = q.expand(*lead, *q.shape[-4:]), start.reshape(*(lead if start.ndim else [1] * len(lead)), 1, 1, 1)
    row = torch.arange(-n_q, n_k + n_q, device=q.device) - start
    inside = ((row >= 0) & (row < n_q))[..., None]
    placed = torch.take_along_dim(q, row.clamp(0, n_q - 1)[..., None], -2).masked_fill(~inside, 0.0)
    k, v = (F.pad(x, (0, 0, n_q, n_q)) for x in (k, v))
    log_decay = None if log_decay is None else F.pad(log_decay, (n_q, n_q))
    average, _ = linear_average(placed, k, v, log_decay=log_decay)
    slot = start + n_q + torch.arange(n_q, device=q.device)
    return torch.take_along_dim(average, slot[..., None], -2)
