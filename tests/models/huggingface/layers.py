"""Attention layers of transformers, built from a configuration with weights of std 0.3."""

import torch
import transformers
from transformers.models.bert.modeling_bert import BertAttention
from transformers.models.bloom.modeling_bloom import BloomAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.swin.modeling_swin import SwinAttention
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.vit.modeling_vit import ViTAttention

from exact import redraw

GROUPED = {"hidden_size": 18, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 11}
YARN = {
    "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 8,
    "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
}  # fmt: skip


def bert(kind=BertAttention, causal=False, cross=False, **options):
    sizes = {"hidden_size": 18, "num_attention_heads": 3, "intermediate_size": 7, "vocab_size": 11}
    config = transformers.BertConfig(**sizes | options)
    return drawn(kind(config, is_causal=causal, layer_idx=0, is_cross_attention=cross))


def bloom(kind=BloomAttention, **options):
    sizes = {"hidden_size": 18, "n_head": 3, "vocab_size": 11, "hidden_dropout": 0.0}
    return drawn(kind(transformers.BloomConfig(**sizes | options), layer_idx=0))


def gpt2(kind=GPT2Attention, **options):
    sizes = {"n_embd": 18, "n_head": 3, "vocab_size": 11, "n_positions": 32}
    return drawn(kind(transformers.GPT2Config(**sizes | options), layer_idx=2))


def llama(kind=LlamaAttention, **options):
    return drawn(kind(transformers.LlamaConfig(**GROUPED | options), layer_idx=0))


def gpt_oss(kind=GptOssAttention, sliding=False, **options):
    config = transformers.GptOssConfig(**GROUPED | {"sliding_window": 5, "rope_parameters": YARN} | options)
    config.layer_types = ["sliding_attention" if sliding else "full_attention"]
    return drawn(kind(config, layer_idx=0))


def gpt_neox(kind=GPTNeoXAttention, **options):
    sizes = {"hidden_size": 18, "num_attention_heads": 3, "intermediate_size": 7, "vocab_size": 11}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.7}
    return drawn(kind(transformers.GPTNeoXConfig(**sizes | {"rope_parameters": rope} | options), layer_idx=0))


def vit(kind=ViTAttention, **options):
    sizes = {"hidden_size": 18, "num_attention_heads": 3, "intermediate_size": 7}
    return drawn(kind(transformers.ViTConfig(**sizes | options)))


def swin(kind=SwinAttention, **options):
    config = transformers.SwinConfig(attn_implementation="eager", **options)
    return drawn(kind(config, hidden_size=18, num_attention_heads=3, window_size=4))


def t5(kind=T5Attention, owns=True, causal=False, decoder=False, **options):
    sizes = {"d_model": 18, "num_heads": 3, "d_kv": 4, "relative_attention_num_buckets": 8}
    config = transformers.T5Config(**sizes | {"relative_attention_max_distance": 11} | options)
    config.is_decoder = decoder
    return drawn(kind(config, has_relative_attention_bias=owns, layer_idx=0, is_causal=causal))


def drawn(layer):
    return redraw(layer, seed=3).to(torch.float32)
