"""The attention functions of `transformers`, called as its models call them: a mask in, (batch, length, heads, d) out.

The eager function comes in three dialects: Llama's, Gemma 2's with a cap, gpt-oss's with sinks. Its masks are the
smallest finite number where hidden, as `transformers.masking_utils` makes them.
"""

from types import SimpleNamespace

import numpy as np
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.llama import modeling_llama
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.t5.modeling_t5 import T5Attention

from mha.conformance.adapter import Adapter
from mha.conformance.adapters.torch_sdpa import merged
from mha.conformance.arrays import Torch

COMMON = {"mask", "bias", "scale", "grouped", "value-width", "float16", "gradient"}
DERIVATIVES = {"second-derivative", "forward-derivative"}


def eager(name):
    """Return the adapter of `eager_attention_forward`."""
    return Adapter(
        name=name,
        attend=lambda *inputs, **options: _eager(*inputs, **options)[0],
        as_given=lambda q, k, v, *, mask=None: _called(modeling_llama.eager_attention_forward, q, k, v, mask)[0],
        weights=lambda *inputs, **options: _eager(*inputs, **options)[1],
        both=lambda *inputs, **options: _eager(*inputs, **options)[0],
        rotate=_rotate,
        parts={"alibi-slopes": _alibi_slopes, "distance-buckets": _buckets},
        arrays=Torch(),
        supports=frozenset(
            COMMON | DERIVATIVES | {"softcap", "sinks", "weights", "rotate", "alibi-slopes", "distance-buckets"}
        ),
        conventions=frozenset({"floats-are-added"}),
        dtype=np.float32,
        packages=("transformers", "torch"),
        isolated=True,
    )


def sdpa(name):
    """Return the adapter of `sdpa_attention_forward`."""
    return Adapter(
        name=name,
        attend=lambda q, k, v, *, mask=None, bias=None, scale=None, causal=False: _called(
            sdpa_attention_forward, q, k, v, merged(mask, bias), scaling=scale, is_causal=causal
        )[0],
        as_given=lambda q, k, v, *, mask=None: _called(
            sdpa_attention_forward, q, k, v, mask, scaling=None, is_causal=False
        )[0],
        arrays=Torch(),
        supports=frozenset(COMMON | DERIVATIVES | {"causal"}),
        conventions=frozenset({"upper-left", "floats-are-added"}),
        packages=("transformers", "torch"),
        isolated=True,
    )


def _eager(q, k, v, *, mask=None, bias=None, scale=None, softcap=None, sinks=None):
    hidden = None
    if mask is not None:
        hidden = torch.where(mask, torch.zeros((), dtype=q.dtype), torch.finfo(q.dtype).min)
    bias = hidden if bias is None else bias if hidden is None else bias + hidden
    if sinks is not None:
        return _called(modeling_gpt_oss.eager_attention_forward, q, k, v, bias, scale, sinks=sinks)
    if softcap is not None:
        return _called(modeling_gemma2.eager_attention_forward, q, k, v, bias, scale, softcap=softcap)
    return _called(modeling_llama.eager_attention_forward, q, k, v, bias, scale)


def _called(function, q, k, v, mask, scaling=None, *, sinks=None, **options):
    layer = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], training=False, sinks=sinks)
    scaling = q.shape[-1] ** -0.5 if scaling is None else scaling
    out, weights = function(layer, q, k, v, mask, scaling=scaling, **options)
    return out.transpose(1, 2), weights


def _rotate(x, positions):
    config = LlamaConfig(
        hidden_size=x.shape[-1],
        num_attention_heads=1,
        max_position_embeddings=128,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(x, positions[None])
    return modeling_llama.apply_rotary_pos_emb(x, x, cos, sin)[0]


def _alibi_slopes(num_heads):
    """BLOOM's, which are what a key gains at position 1."""
    return build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]


def _buckets(distances, num_buckets, max_distance, bidirectional):
    return T5Attention._relative_position_bucket(distances, bidirectional, num_buckets, max_distance)
