"""Equinox's function of one head, which its `nn.MultiheadAttention` maps over heads; so does the adapter."""

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.nn._attention import dot_product_attention, dot_product_attention_weights

from mha.conformance.adapter import Adapter
from mha.conformance.adapters.jax import DERIVATIVES
from mha.conformance.arrays import Jax


def function(name):
    """Return the adapter of the function; a mask is the only option."""
    return Adapter(
        name=name,
        attend=_attend,
        weights=_weights,
        both=_attend,
        rotate=_rotate,
        as_given=_as_given,
        arrays=Jax(),
        supports=frozenset(DERIVATIVES | {"mask", "value-width", "float16", "weights", "rotate"}),
        packages=("equinox", "jax"),
        isolated=True,
    )


def _each_head(function, arrays, mask):
    """Run the function of one head on every head of every sample."""
    if mask is not None:
        mask = jnp.broadcast_to(mask, (*arrays[0].shape[:2], arrays[0].shape[2], arrays[1].shape[2]))
    return jax.vmap(jax.vmap(function))(*arrays, mask)


def _attend(q, k, v, *, mask=None):
    return _each_head(dot_product_attention, (q, k, v), mask)


def _weights(q, k, v, *, mask=None):
    return _each_head(dot_product_attention_weights, (q, k), mask)


def _as_given(q, k, v, *, mask=None):
    return jax.vmap(jax.vmap(lambda q, k, v: dot_product_attention(q, k, v, mask)))(q, k, v)


def _rotate(x, positions):
    """Turn one vector: the layer turns a sequence that starts at 0."""
    (position,) = positions.tolist()
    rope = eqx.nn.RotaryPositionalEmbedding(x.shape[-1])
    return rope(jnp.broadcast_to(x[0, 0], (position + 1, x.shape[-1])))[None, None, -1:]
