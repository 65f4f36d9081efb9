"""`torch.nn.MultiheadAttention` as an attention core: every projection is the identity.

It says True for what is hidden, and what it returns may depend on whether the weights are asked for: two adapters.
"""

import torch
from torch import nn

from mha.conformance.adapter import Adapter
from mha.conformance.adapters.torch_sdpa import merged
from mha.conformance.arrays import Torch


def without_weights(name):
    """Return the adapter of the call with `need_weights=False`."""
    return _adapter(name, attend=_output)


def with_weights(name):
    """Return the adapter of the call that gives the weights of each head too."""
    return _adapter(name, attend=_output_beside_weights)


def _adapter(name, attend):
    return Adapter(
        name=name,
        attend=attend,
        as_given=lambda q, k, v, *, mask=None: _run(q, k, v, _flattened(mask, q, k))[0],
        weights=lambda *inputs, **options: _converted(*inputs, **options, need_weights=True)[1],
        both=_output_beside_weights,
        arrays=Torch(),
        supports=frozenset(
            {"mask", "bias", "lengths", "float16", "weights", "gradient", "second-derivative", "forward-derivative"}
        ),
        conventions=frozenset({"true-hides", "floats-are-added", "heads-in-batch"}),
        packages=("torch",),
        isolated=True,
    )


def _output(*inputs, **options):
    return _converted(*inputs, **options)[0]


def _output_beside_weights(*inputs, **options):
    return _converted(*inputs, **options, need_weights=True)[0]


def _converted(q, k, v, *, mask=None, bias=None, lengths=None, need_weights=False):
    attn_mask = ~mask if bias is None and mask is not None else merged(mask, bias)
    padding = None if lengths is None else torch.arange(k.shape[-2]) >= lengths[:, None]
    return _run(q, k, v, _flattened(attn_mask, q, k), padding, need_weights)


def _flattened(mask, q, k):
    """Return a mask of four axes as (batch · heads, i, j), one row for all queries as the rows."""
    if mask is None or mask.ndim == 3:
        return mask
    sizes = q.shape[-2], k.shape[-2]
    if mask.ndim == 4:
        return mask.expand(*q.shape[:2], *sizes).flatten(0, 1)
    return mask.expand(sizes) if mask.shape[0] == 1 else mask


def _run(q, k, v, attn_mask, padding=None, need_weights=False):
    """Return the output and the weights of each head."""
    batch, num_heads, _, d = q.shape
    width = num_heads * d
    layer = nn.MultiheadAttention(width, num_heads, bias=False, batch_first=True, dtype=q.dtype).eval()
    identity = torch.eye(width, dtype=q.dtype)
    layer.load_state_dict({"in_proj_weight": identity.repeat(3, 1), "out_proj.weight": identity})
    inputs = (x.transpose(1, 2).flatten(2) for x in (q, k, v))
    out, weights = layer(
        *inputs, attn_mask=attn_mask, key_padding_mask=padding, need_weights=need_weights, average_attn_weights=False
    )
    return out.reshape(batch, q.shape[2], num_heads, d).transpose(1, 2), weights
