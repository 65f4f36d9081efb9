"""`T5Attention`: no scale, no biases, and scores that gain by distance."""

import torch

from mha import masks
from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.weights import layer_around, of_linear
from mha.nn.relative.t5 import RelativeBias

__all__ = ["convert"]


def convert(layer, *, position=None):
    """Pair a `T5Attention` with ours.

    Only the first layer of a stack owns the bias by distance: give the others `position=first.position`.
    Cross-attention has none.
    """
    _check(layer, position)
    if layer.has_relative_attention_bias:
        position = _own_bias(layer)
    linears, double = (layer.q, layer.k, layer.v, layer.o), double_copy(layer)
    options = {"num_heads": layer.n_heads, "scale": 1.0, "dropout": layer.dropout, "position": position}

    shared = None if layer.has_relative_attention_bias or position is None else double_copy(position)

    def theirs(x, hide):
        places = torch.arange(x.shape[-2])
        bias = None if shared is None else shared.bias(places, places)[None]
        return double(x, mask=hide, position_bias=bias)[0]

    mask = masks.causal if layer.is_causal else None
    return Pair(layer_around(*map(of_linear, linears), **options), theirs, "separate q, k, v", mask)


def _check(layer, position):
    """Raise unless the bias by distance is there just once, or not at all over a context."""
    owns, over_context = layer.has_relative_attention_bias, layer.is_decoder and not layer.is_causal
    if position is None and not (owns or over_context):
        raise ValueError(
            "position is None, and the layer owns no bias by distance: expected position=first.position, that of the "
            "first layer of its stack"
        )
    if position is not None and (owns or over_context):
        reason = "owns its bias by distance" if owns else "attends to a context"
        raise ValueError(f"position is {position}: expected None, for the layer {reason}")


def _own_bias(layer):
    table = layer.relative_attention_bias.weight
    made = RelativeBias(
        layer.n_heads,
        num_buckets=layer.relative_attention_num_buckets,
        max_distance=layer.relative_attention_max_distance,
        bidirectional=not layer.is_decoder,
        device=table.device,
        dtype=table.dtype,
    )
    with torch.no_grad():
        made.weight.copy_(table)
    return made
