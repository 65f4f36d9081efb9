"""`flax.nnx.dot_product_attention`, (batch, length, heads, width)."""

import numpy as np
from flax import nnx

from mha.conformance.adapter import Adapter
from mha.conformance.adapters.jax import DERIVATIVES, four_axes, length_first
from mha.conformance.arrays import Jax


def function(name):
    """Return the adapter of the function."""
    return Adapter(
        name=name,
        attend=_attend,
        arrays=Jax(),
        supports=frozenset(DERIVATIVES | {"mask", "bias", "causal", "causal-with-mask", "grouped"}),
        conventions=frozenset({"upper-left"}),
        dtype=np.float32,
        packages=("flax", "jax"),
        isolated=True,
    )


def _attend(q, k, v, *, mask=None, bias=None, causal=False):
    mask, bias = (four_axes(x, q, k) for x in (mask, bias))
    return nnx.dot_product_attention(*length_first(q, k, v), bias, mask, is_causal=causal).swapaxes(1, 2)
