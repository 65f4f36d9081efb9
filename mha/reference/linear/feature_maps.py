"""Attention by features: weights in proportion to φ(q)·φ(k) instead of e^(q·k) (Katharopoulos et al. 2020).

Here the weights of all pairs are formed, as the definition says; `mha.nn` brackets the product otherwise and does not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mha import shapes
from mha.approximations import ask
from mha.options import hinted
from mha.reference.dot_product import mix, repeat_heads

__all__ = ["FeatureAttention", "elu_plus_one", "relu", "softmax_features", "squared_relu"]


def elu_plus_one(x: "Float[Array, '*b d']") -> "Float[Array, '*b d']":
    """Return x + 1 where x is positive and eˣ elsewhere: never 0 (Katharopoulos et al. 2020)."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def relu(x: "Float[Array, '*b d']") -> "Float[Array, '*b d']":
    """Return x where it is positive and 0 elsewhere: a query that meets no key in a positive entry gets 0."""
    return np.maximum(x, 0)


def squared_relu(x: "Float[Array, '*b d']") -> "Float[Array, '*b d']":
    """Return x² where x is positive and 0 elsewhere: weights that differ more, as those of a softmax do."""
    return np.maximum(x, 0) ** 2


def softmax_features(x: "Float[Array, '*b d']") -> "Float[Array, '*b m']":
    """Return the softmax of x over its entries beside that of −x: m = 2d (Zhang et al. 2024, Hedgehog).

    There x is a learned projection of q or k, trained so that the weights come near to those of a softmax.
    """
    both = np.stack([x, -x], -2)
    exponentials = np.exp(both - both.max(-1, keepdims=True))
    parts = exponentials / exponentials.sum(-1, keepdims=True)
    return parts.reshape(*x.shape[:-1], 2 * x.shape[-1])


@dataclass(frozen=True)
class FeatureAttention:
    """A core whose weights are in proportion to φ(q)·φ(k), with `feature_map` for φ: nothing negative.

    It has no scale, and no softmax that would need one. A query whose weights are all 0 gets 0.
    Book: {eq}`linear-attention`
    """

    feature_map: Callable = elu_plus_one
    supports = frozenset({"causal", "padding", "cross"})

    @hinted
    def __call__(self, q, k, v, *, scale=None, **options):
        """Return what `attention` returns with these weights."""
        if scale is not None:
            raise ValueError(f"scale is {scale}: expected None, for the weights are φ(q)·φ(k); scale q beforehand")
        ask(self, q, k, v, **options)
        call = shapes.check(q, k, v, **options)
        with np.errstate(invalid="ignore", over="ignore"):  # a hidden key may hold anything
            q, k = self.feature_map(shapes.float64("q", q)), self.feature_map(repeat_heads(k, call))
            weights = np.einsum("...im,...jm->...ij", q, k)
        see = np.True_ if call.mask is None else shapes.visible(call)
        see = np.broadcast_to(see, weights.shape)
        weights = np.where(see, weights, 0.0)
        total = weights.sum(-1, keepdims=True)
        return mix(weights / np.where(total == 0, 1.0, total), repeat_heads(v, call), see)
