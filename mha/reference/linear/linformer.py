"""Linformer: fewer keys and values, each a learned mixture of all positions (Wang et al. 2020)."""

from dataclasses import dataclass

import numpy as np

from mha import shapes
from mha.approximations import ask
from mha.options import hinted
from mha.reference.dot_product import attention
from mha.reference.linear.visible_keys import visible_keys

__all__ = ["Linformer"]


@dataclass(frozen=True, eq=False)
class Linformer:
    """A core that attends to Eᵀ K and Fᵀ V, with E and F of shape (length, rank), or (heads, length, rank).

    Fewer keys than `length` meet the first rows of E and F. Rows go by position: padding in front of a sample or behind
    it changes nothing. Every mixture holds all positions, so that no mask can keep the future out.
    """

    e: np.ndarray
    f: np.ndarray
    supports = frozenset({"padding", "cross"})

    def __post_init__(self):
        shapes.check_rank("e", self.e, ("length", "rank"))
        shapes.check_shape("f", self.f, self.e.shape)

    @hinted
    def __call__(self, q, k, v, *, scale=None, **options):
        """Return what `attention` returns on the mixtures."""
        asked = ask(self, q, k, v, scale=scale, **options)
        check_length(asked.call, self.e.shape[-2])
        shown = visible_keys(asked)
        e, f = (rows_of(shapes.float64(name, x), asked) for name, x in (("e", self.e), ("f", self.f)))
        k, v = (np.where(shown, shapes.float64(name, x), 0.0) for name, x in (("k", k), ("v", v)))
        return attention(q, mixtures(e, k), mixtures(f, v), scale=asked.call.scale)


def mixtures(weights, rows):
    """Return sums of rows (…, n, d), one for each column of the weights (…, n, r)."""
    return np.einsum("...nr,...nd->...rd", weights, rows)


def rows_of(weights, asked):
    """Return the rows of the weights that stand at the positions of the keys, from a sample's first valid key on."""
    slots, first = np.arange(asked.call.n_k), asked.first_keys()
    if first is None:
        return weights[..., slots, :]
    shift = np.asarray(first).reshape(*asked.call.batch_shape, 1, 1)
    return np.take_along_axis(*lined_up(weights, np.maximum(slots - shift, 0)[..., None]), axis=-2)


def lined_up(weights, rows):
    lead = shapes.broadcast(weights.shape[:-2], rows.shape[:-2])
    return (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (weights, rows))


def check_length(call, length):
    """Raise if there are more keys than the projections were made for."""
    if call.n_k > length:
        raise ValueError(f"k has length {call.n_k}: expected at most {length}, the length of e and f")
