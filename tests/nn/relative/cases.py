"""Every scheme of relative positions for a layer of six heads, four wide, and the same scheme said by the reference."""

from functools import partial
from types import SimpleNamespace

import torch

from mha import nn, reference
from nn.layers import numbers

NUM_HEADS, D_HEAD, D_MODEL = 6, 4, 10
WINDOW = 3, 5
DOUBLE = {"dtype": torch.float64}
WIDE = {"d_head": D_HEAD} | DOUBLE

SCHEMES = {
    "alibi": lambda: nn.Alibi(NUM_HEADS),
    "t5": lambda: nn.RelativeBias(NUM_HEADS, num_buckets=8, max_distance=11, **DOUBLE),
    "t5 causal": lambda: nn.RelativeBias(NUM_HEADS, num_buckets=8, max_distance=11, bidirectional=False, **DOUBLE),
    "shaw": lambda: nn.ShawBias(D_HEAD, max_distance=3, **DOUBLE),
    "transformer-xl": lambda: nn.TransformerXLBias(D_MODEL, NUM_HEADS, **WIDE),
    "deberta": lambda: nn.DisentangledBias(D_MODEL, NUM_HEADS, span=3, **WIDE),
    "deberta, buckets": lambda: nn.DisentangledBias(D_MODEL, NUM_HEADS, span=4, max_distance=9, **WIDE),
    "deberta, paper": lambda: nn.DisentangledBias(D_MODEL, NUM_HEADS, span=3, paper_sign=True, **WIDE),
    "grid": lambda: nn.GridBias(NUM_HEADS, window=WINDOW, **DOUBLE),
}


def by_reference(scheme):
    """Return the scheme with the same parameters, made of functions of `mha.reference` alone."""
    if isinstance(scheme, nn.Alibi):
        return SimpleNamespace(bias=partial(reference.alibi_bias, reference.alibi_slopes(scheme.num_heads)))
    if isinstance(scheme, nn.RelativeBias):
        options = {"max_distance": scheme.max_distance, "bidirectional": scheme.bidirectional}
        return SimpleNamespace(bias=partial(reference.relative_bias, numbers(scheme.weight), **options))
    if isinstance(scheme, nn.GridBias):
        return SimpleNamespace(bias=partial(reference.grid_bias, numbers(scheme.weight), window=scheme.window))
    return SimpleNamespace(content_bias=partial(CONTENT[type(scheme)], scheme))


def shaw(scheme, q, k, at_q, at_k, scale):
    return reference.shaw_bias(q, numbers(scheme.weight), at_q, at_k, scale=scale)


def transformer_xl(scheme, q, k, at_q, at_k, scale):
    parts = map(numbers, (scheme.u, scheme.v, scheme.r_proj.weight.T))
    return reference.transformer_xl_bias(q, k, *parts, at_q, at_k, scale=scale)


def deberta(scheme, q, k, at_q, at_k, scale):
    tables = []
    for linear in (scheme.k_proj, scheme.q_proj):
        rows = numbers(scheme.weight) @ numbers(linear.weight).T + numbers(linear.bias)
        tables.append(reference.split_heads(rows, NUM_HEADS))
    options = {"max_distance": scheme.max_distance, "paper_sign": scheme.paper_sign}
    return reference.disentangled_bias(q, k, *tables, at_q, at_k, **options, scale=scale)


CONTENT = {nn.ShawBias: shaw, nn.TransformerXLBias: transformer_xl, nn.DisentangledBias: deberta}
