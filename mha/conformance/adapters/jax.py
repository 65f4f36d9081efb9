"""`jax.nn.dot_product_attention`, (batch, length, heads, width)."""

import jax
import numpy as np

from mha.conformance.adapter import Adapter
from mha.conformance.arrays import Jax

DERIVATIVES = {"gradient", "second-derivative", "forward-derivative"}


def function(name):
    """Return the adapter of the function. Its products have float32 results, which a CPU does not give of float16."""
    return Adapter(
        name=name,
        attend=_attend,
        stats=lambda q, k, v, **options: {"lse": _run(q, k, v, **options, return_residual=True)[1].swapaxes(1, 2)},
        arrays=Jax(),
        supports=frozenset(
            DERIVATIVES
            | {"mask", "bias", "scale", "causal", "causal-with-mask", "window", "lengths"}
            | {"grouped", "lse"}
        ),
        conventions=frozenset({"upper-left"}),
        dtype=np.float32,
        packages=("jax",),
        isolated=True,
    )


def length_first(*arrays):
    """Return the arrays with the axes of heads and length changed over."""
    return [x.swapaxes(1, 2) for x in arrays]


def four_axes(x, q, k):
    """Return a mask (i, j) with the axes of samples and heads before it; another shape as it is."""
    return x[None, None] if x is not None and x.shape == (q.shape[2], k.shape[2]) else x


def _attend(*inputs, **options):
    return _run(*inputs, **options).swapaxes(1, 2)


def _run(q, k, v, *, mask=None, bias=None, scale=None, causal=False, window=None, lengths=None, return_residual=False):
    mask, bias = (four_axes(x, q, k) for x in (mask, bias))
    return jax.nn.dot_product_attention(
        *length_first(q, k, v),
        bias,
        mask,
        scale=scale,
        is_causal=causal,
        local_window_size=window,
        key_value_seq_lengths=None if lengths is None else lengths.astype("int32"),
        return_residual=return_residual,
    )
