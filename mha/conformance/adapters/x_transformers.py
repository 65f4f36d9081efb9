"""`x_transformers.attend.Attend`, the plain (not flash) path."""

import numpy as np
import torch
from x_transformers.attend import Attend
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    RelativePositionBias,
    RotaryEmbedding,
    apply_rotary_pos_emb,
)

from mha.conformance.adapter import Adapter
from mha.conformance.arrays import Torch


def layer(name):
    """Return the adapter of the layer."""
    return Adapter(
        name=name,
        attend=lambda *inputs, **options: _run(*inputs, **options)[0],
        weights=lambda *inputs, **options: _run(*inputs, **options)[1].post_softmax_attn,
        both=lambda *inputs, **options: _run(*inputs, **options)[0],
        rotate=_rotate,
        parts={"alibi-slopes": _alibi_slopes, "distance-buckets": _buckets},
        arrays=Torch(),
        supports=frozenset(
            {"mask", "bias", "scale", "softcap", "sinks", "causal", "causal-with-mask", "grouped", "value-width"}
            | {"float16", "weights", "rotate", "gradient", "second-derivative", "forward-derivative"}
            | {"alibi-slopes", "distance-buckets"}
        ),
        conventions=frozenset({"heads-take-turns", "interleaved", "bias-inside-the-cap", "two-axes-are-padding"}),
        dtype=np.float32,
        packages=("x-transformers", "torch"),
        isolated=True,
    )


def _run(q, k, v, *, mask=None, bias=None, scale=None, softcap=None, sinks=None, causal=False):
    core = Attend(
        heads=q.shape[1],
        causal=causal,
        scale=scale,
        softclamp_logits=softcap is not None,
        logit_softclamp_value=softcap,
        head_learned_sink=sinks is not None,
    )
    mask = mask[None, None] if mask is not None and mask.shape == (q.shape[2], k.shape[2]) else mask
    parameters = {} if sinks is None else {"head_attn_sink": sinks}
    return torch.func.functional_call(core, parameters, (q, k, v), {"mask": mask, "attn_bias": bias})


def _rotate(x, positions):
    turns, scale = RotaryEmbedding(x.shape[-1])(positions[None])
    return apply_rotary_pos_emb(x, turns, scale)


def _alibi_slopes(num_heads):
    return torch.tensor(AlibiPositionalBias._get_slopes(num_heads))


def _buckets(distances, num_buckets, max_distance, bidirectional):
    return RelativePositionBias._relative_position_bucket(
        distances, causal=not bidirectional, num_buckets=num_buckets, max_distance=max_distance
    )
