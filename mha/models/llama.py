"""A decoder of the Llama family (Touvron et al. 2023): RMSNorm, rotary positions, grouped heads, SwiGLU.

SmolLM2-135M is one, with `smollm2.json` as its configuration.
"""

from dataclasses import dataclass

from torch import nn

from mha.models.decoder import Decoder
from mha.models.naming import check_tied, renamed
from mha.models.start import check_counts, draw_weights
from mha.nn.block import EncoderBlock
from mha.nn.rotary import Rotary

__all__ = ["Llama", "LlamaConfig", "from_hub_names"]


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a model; `d_mlp` is the width between the two halves of SwiGLU."""

    vocab_size: int
    num_layers: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    d_mlp: int
    rope_base: float
    norm_eps: float


class Llama(Decoder):
    """Tokens (batch, length) to the logits of the next token (batch, length, vocabulary), the embeddings themselves."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        check_counts(config, "vocab_size", "num_layers")
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(
            EncoderBlock(
                config.d_model,
                config.num_heads,
                config.d_mlp,
                num_kv_heads=config.num_kv_heads,
                norm="rms",
                norm_eps=config.norm_eps,
                activation="swiglu",
                bias=False,
                position=Rotary(base=config.rope_base),
            )
            for _ in range(config.num_layers)
        )
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        draw_weights(self)


_HUB_NAMES = (
    (r"^model\.", ""),
    (r"^embed_tokens\.", "embed."),
    (r"^layers\.", "blocks."),
    (r"\.self_attn\.o_proj\.", ".attention.out_proj."),
    (r"\.self_attn\.", ".attention."),
    (r"\.input_layernorm\.", ".attention_norm."),
    (r"\.post_attention_layernorm\.", ".feed_forward_norm."),
    (r"\.mlp\.(gate|up|down)_proj\.", r".feed_forward.\1."),
)


def from_hub_names(state):
    """Return the weights of a `LlamaForCausalLM` with tied embeddings under our names."""
    check_tied(state, "lm_head.weight", "model.embed_tokens.weight")
    return renamed(state, _HUB_NAMES, without=r"^lm_head\.")
