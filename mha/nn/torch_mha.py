"""The weights of `torch.nn.MultiheadAttention` to and from ours, option by option."""

import torch
from torch import nn

from mha.nn.dot_product import attention

__all__ = ["convert_from", "convert_to"]


def convert_from(cls, module):
    """Build `cls` with copies of the weights of an `nn.MultiheadAttention`."""
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(f"module is a {type(module).__name__}: expected a torch.nn.MultiheadAttention")
    if module.bias_k is not None:
        raise ValueError("add_bias_kv=True has no counterpart: append the learned key and value to the context instead")
    if module.add_zero_attn:
        raise ValueError("add_zero_attn=True has no counterpart: expected False; a zero key is a sink of logit 0")
    biased = module.out_proj.bias is not None
    ours = cls(
        module.embed_dim,
        module.num_heads,
        d_key_in=module.kdim,
        d_value_in=module.vdim,
        bias=biased,
        dropout=module.dropout,
        device=module.out_proj.weight.device,
        dtype=module.out_proj.weight.dtype,
    )
    _copy(_torch_parts(module), _our_parts(ours))
    return ours.train(module.training)


def convert_to(ours, batch_first):
    """Build an `nn.MultiheadAttention` with copies of our weights, or say which option it lacks."""
    plain = ours.d_head**-0.5
    for name, used, expected in [
        ("position", ours.position, None),
        ("num_kv_heads", ours.num_kv_heads, ours.num_heads),
        ("d_head", ours.d_head * ours.num_heads, ours.d_model),
        ("scale", plain if ours.scale is None else ours.scale, plain),
        ("softcap", ours.softcap, None),
        ("qk_norm", ours.q_norm, None),
        ("sinks", ours.sinks, None),
        ("gate", ours.gate_proj, None),
        ("core", ours.core, attention),
    ]:
        if used is not expected and (expected is None or used != expected):
            raise ValueError(f"nn.MultiheadAttention has no {name}: expected {expected}, got {used}")
    module = nn.MultiheadAttention(
        ours.d_model,
        ours.num_heads,
        dropout=ours.dropout,
        bias=ours.out_proj.bias is not None,
        kdim=ours.k_proj.in_features,
        vdim=ours.v_proj.in_features,
        batch_first=batch_first,
        device=ours.out_proj.weight.device,
        dtype=ours.out_proj.weight.dtype,
    )
    _copy(_our_parts(ours), _torch_parts(module))
    return module.train(ours.training)


def _our_parts(ours):
    linears = ours.q_proj, ours.k_proj, ours.v_proj, ours.out_proj
    return [linear.weight for linear in linears], [linear.bias for linear in linears]


def _torch_parts(module):
    if module.in_proj_weight is None:
        weights = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
    else:
        weights = module.in_proj_weight.detach().chunk(3)
    biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.detach().chunk(3)
    return [*weights, module.out_proj.weight], [*biases, module.out_proj.bias]


@torch.no_grad()
def _copy(source, target):
    for ours, theirs in zip(source, target, strict=True):
        for from_, to in zip(ours, theirs, strict=True):
            if to is not None:
                to.copy_(from_)
