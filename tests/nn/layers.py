"""Layers with weights that show a fault, and the same layers said by the reference."""

from functools import partial
from types import SimpleNamespace

import torch

from mha import reference
from mha.nn import MultiHeadAttention


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def layer(d_model, num_heads, *, seed=1, **options):
    """Return a layer in float64 whose parameters are all drawn at 0.3, so that no term hides in the tolerance."""
    made = MultiHeadAttention(d_model, num_heads, **{"dtype": torch.float64} | options)
    make = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    return made


def in_reference(module, x, context=None, **options):
    """Return what the reference makes of the same weights: every option of the layer, none of its code."""
    linears = module.q_proj, module.k_proj, module.v_proj, module.out_proj
    w_q, w_k, w_v, w_o = (numbers(linear.weight).T for linear in linears)
    if module.q_norm is not None:
        gains = numbers(module.q_norm.weight), numbers(module.k_norm.weight)
        options["qk_norm"] = tuple(partial(reference.rms_norm, gain=gain, eps=module.q_norm.eps) for gain in gains)
    if module.gate_proj is not None:
        options["gate"] = numbers(module.gate_proj.weight).T, numbers(module.gate_proj.bias)
    if module.position is not None and "position" not in options:
        turn = partial(reference.rotate, base=module.position.base, layout=module.position.layout)
        options["position"] = SimpleNamespace(rotate=turn)
    return reference.multi_head_attention(
        numbers(x), w_q, w_k, w_v, w_o,
        num_heads=module.num_heads, num_kv_heads=module.num_kv_heads,
        biases=tuple(numbers(linear.bias) for linear in linears),
        context=numbers(context), scale=module.scale, softcap=module.softcap, sinks=numbers(module.sinks), **options,
    )  # fmt: skip


def numbers(x):
    return None if x is None else x.detach().numpy()


def slope(function, x, d_out, step=1e-4):
    """Return the gradient of sum(function(x) · d_out) by differences of fourth order, entry by entry."""
    gradient = torch.zeros_like(x)
    for place in range(x.numel()):

        def along(steps, place=place):
            moved = x.clone()
            moved.view(-1)[place] += steps * step
            return float((function(moved) * numbers(d_out)).sum())

        gradient.view(-1)[place] = (8 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12 * step)
    return gradient
