"""Our layer around the projections of another, each a pair of a weight (d_out, d_in) and a bias or None."""

import torch

from mha.nn.heads import MultiHeadAttention
from mha.nn.rotary import interleaved_order

__all__ = ["interleaved", "layer_around", "of_linear"]


def of_linear(linear):
    """Return the weight and the bias of a `torch.nn.Linear`."""
    return linear.weight, linear.bias


def layer_around(q, k, v, out, *, num_heads, **options):
    """Return a `MultiHeadAttention` with copies of these projections; the sizes are read from them."""
    (q_weight, _), (k_weight, _), (v_weight, _) = q, k, v
    d_model, d_head = q_weight.shape[1], q_weight.shape[0] // num_heads
    made = MultiHeadAttention(
        d_model,
        num_heads,
        num_kv_heads=k_weight.shape[0] // d_head,
        d_head=d_head,
        d_key_in=k_weight.shape[1],
        d_value_in=v_weight.shape[1],
        bias=any(bias is not None for _, bias in (q, k, v, out)),
        device=q_weight.device,
        dtype=q_weight.dtype,
        **options,
    )
    linears = made.q_proj, made.k_proj, made.v_proj, made.out_proj
    with torch.no_grad():
        for linear, (weight, bias) in zip(linears, (q, k, v, out), strict=True):
            linear.weight.copy_(weight)
            if bias is not None:
                linear.bias.copy_(bias)
    return made


def interleaved(projection, num_heads, width=None):
    """Return a projection of queries or keys whose pairs (c, c + width/2) have become neighbours (2c, 2c + 1)."""
    weight = projection[0]
    order = interleaved_order(num_heads, len(weight) // num_heads, width=width, device=weight.device)
    return tuple(None if x is None else x[order] for x in projection)
