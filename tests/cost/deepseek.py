"""Small latent attention as Hugging Face writes it."""

import torch

from mha.cost import Latent

D_MODEL, HEADS = 26, 3


def latent(narrow):
    return Latent(d_latent=7, d_rope=4, d_head=5, d_value=11, d_query_latent=narrow)


def module(narrow):
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

    sizes = latent(narrow)
    config = DeepseekV3Config(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        kv_lora_rank=sizes.d_latent,
        q_lora_rank=narrow,
        qk_rope_head_dim=sizes.d_rope,
        qk_nope_head_dim=sizes.d_head,
        v_head_dim=sizes.d_value,
        attn_implementation="eager",
    )
    return DeepseekV3Attention(config, layer_idx=0)


def run(module, n):
    """Attend from n positions to themselves, unmasked."""
    angles = torch.zeros(1, n, module.qk_rope_head_dim)
    return module(torch.zeros(1, n, D_MODEL), (angles.cos(), angles.sin()), None)
