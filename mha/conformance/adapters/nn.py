"""The PyTorch floor of this package: its functions, and the layer with projections that change nothing."""

import torch

from mha import nn
from mha.conformance.adapter import FEATURES, PARTS, Adapter
from mha.conformance.adapters.values import parts, with_masks
from mha.conformance.arrays import Torch


def functions(name):
    """Return the adapter of the functions of `mha.nn`."""
    return Adapter(
        name=name,
        attend=with_masks(nn.attention),
        as_given=nn.attention,
        weights=with_masks(lambda q, k, v, **options: nn.attention_weights(q, k, **options)),
        both=with_masks(lambda q, k, v, **options: nn.attention_stats(q, k, v, **options)[0]),
        stats=with_masks(lambda q, k, v, **options: nn.attention_stats(q, k, v, **options)[1]._asdict()),
        rotate=nn.rotate,
        parts=parts(nn),
        arrays=Torch(),
        supports=FEATURES,
        packages=("torch",),
    )


def module(name):
    """Return the adapter of `mha.nn.MultiHeadAttention` with the identity in the place of each projection."""
    return Adapter(
        name=name,
        attend=with_masks(_attend),
        as_given=_attend,
        weights=with_masks(_weights),
        both=with_masks(_attend_beside_weights),
        arrays=Torch(),
        supports=FEATURES - {"value-width", "lse", "max-logit", "entropy", "rotate"} - set(PARTS),
        packages=("torch",),
    )


def _attend(q, k, v, **options):
    layer, parameters, inputs, call = _layer(q, k, v, **options)
    heads = torch.func.functional_call(layer, parameters, inputs, call)
    return nn.split_heads(heads, q.shape[-3])


def _weights(q, k, v, **options):
    layer, parameters, inputs, call = _layer(q, k, v, **options)
    layer.load_state_dict(parameters)
    return layer.weights(*inputs, **call)


def _attend_beside_weights(q, k, v, **options):
    _weights(q, k, v, **options)
    return _attend(q, k, v, **options)


def _layer(q, k, v, *, mask=None, bias=None, scale=None, softcap=None, sinks=None, q_start=None):
    """Return the layer, its parameters by name, and how to call it."""
    num_heads, num_kv_heads, d = q.shape[-3], k.shape[-3], q.shape[-1]
    layer = nn.MultiHeadAttention(
        num_heads * d,
        num_heads,
        num_kv_heads=num_kv_heads,
        d_head=d,
        d_key_in=num_kv_heads * d,
        d_value_in=num_kv_heads * d,
        bias=False,
        scale=scale,
        softcap=softcap,
        sinks=sinks is not None,
        dtype=q.dtype,
    )
    parameters = {
        f"{name}.weight": torch.eye(linear.in_features, dtype=q.dtype)
        for name, linear in layer.named_children()
        if isinstance(linear, torch.nn.Linear)
    }
    parameters |= {} if sinks is None else {"sinks": sinks}
    call = {"mask": mask, "bias": bias}
    if q_start is not None:
        call["positions"] = torch.as_tensor(q_start)[..., None] + torch.arange(q.shape[-2])
    return layer, parameters, (nn.join_heads(q), (nn.join_heads(k), nn.join_heads(v))), call
