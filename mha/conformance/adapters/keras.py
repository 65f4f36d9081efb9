"""Keras on its JAX backend: the layer with projections that change nothing, and the operation."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

from mha.conformance.adapter import Adapter
from mha.conformance.adapters.jax import DERIVATIVES, four_axes, length_first
from mha.conformance.arrays import Jax


def layer(name):
    """Return the adapter of `keras.layers.MultiHeadAttention`."""
    return Adapter(
        name=name,
        attend=lambda *inputs, **options: _run(*inputs, **options),
        weights=lambda *inputs, **options: _run(*inputs, **options, return_attention_scores=True)[1],
        both=lambda *inputs, **options: _run(*inputs, **options, return_attention_scores=True)[0],
        arrays=Jax(),
        supports=frozenset(DERIVATIVES | {"mask", "causal", "causal-with-mask", "value-width", "weights"}),
        conventions=frozenset({"upper-left", "three-axes-are-samples"}),
        dtype=np.float32,
        packages=("keras", "jax"),
        isolated=True,
    )


def operation(name):
    """Return the adapter of `keras.ops.dot_product_attention`; its cap needs a TPU."""
    return Adapter(
        name=name,
        attend=_operation,
        arrays=Jax(),
        supports=frozenset(DERIVATIVES | {"mask", "bias", "scale", "causal", "causal-with-mask", "grouped"}),
        conventions=frozenset({"upper-left", "two-axes-are-padding"}),
        dtype=np.float32,
        packages=("keras", "jax"),
        isolated=True,
    )


def _operation(q, k, v, *, mask=None, bias=None, scale=None, causal=False):
    mask, bias = (four_axes(x, q, k) for x in (mask, bias))
    out = keras.ops.dot_product_attention(*length_first(q, k, v), bias=bias, mask=mask, scale=scale, is_causal=causal)
    return out.swapaxes(1, 2)


def _run(q, k, v, *, mask=None, causal=False, return_attention_scores=False):
    num_heads, d, d_value = q.shape[1], q.shape[-1], v.shape[-1]
    joined = [x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3]) for x in (q, k, v)]
    core = keras.layers.MultiHeadAttention(
        num_heads, d, d_value, use_bias=False, output_shape=num_heads * d_value, dtype=str(q.dtype)
    )
    core.build(*((1, 1, x.shape[-1]) for x in (joined[0], joined[2], joined[1])))
    sides = (d, d, d_value)
    identities = [np.eye(num_heads * side).reshape(-1, num_heads, side) for side in sides]
    core.set_weights([*identities, np.eye(num_heads * d_value).reshape(num_heads, d_value, -1)])
    found = core(
        joined[0],
        joined[2],
        joined[1],
        attention_mask=four_axes(mask, q, k),
        use_causal_mask=causal,
        return_attention_scores=return_attention_scores,
    )
    out, *rest = found if return_attention_scores else (found,)
    out = out.reshape(out.shape[0], out.shape[1], num_heads, d_value).swapaxes(1, 2)
    return (out, *rest) if return_attention_scores else out
