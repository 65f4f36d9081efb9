"""A decoder of the Llama family (Touvron et al. 2023): RMSNorm, rotary positions, grouped heads, SwiGLU.

SmolLM2-135M is one, with `smollm2.json` as its configuration.
"""

from dataclasses import dataclass

import torch
from torch import nn

from mha import masks
from mha.models.naming import renamed
from mha.models.probe import attention_maps
from mha.nn.cache import Cache
from mha.nn.heads import MultiHeadAttention
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


class SwiGLU(nn.Module):
    """A feed-forward layer whose hidden units are gated: down(silu(gate x) · up x) (Shazeer 2020)."""

    def __init__(self, d_model, d_mlp):
        super().__init__()
        self.gate = nn.Linear(d_model, d_mlp, bias=False)
        self.up = nn.Linear(d_model, d_mlp, bias=False)
        self.down = nn.Linear(d_mlp, d_model, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention, then SwiGLU, each on the normalised stream and added to it."""

    def __init__(self, config):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.attention = MultiHeadAttention(
            config.d_model,
            config.num_heads,
            num_kv_heads=config.num_kv_heads,
            bias=False,
            position=Rotary(base=config.rope_base),
        )
        self.mlp_norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.mlp = SwiGLU(config.d_model, config.d_mlp)

    def forward(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask=mask)
        return x + self.mlp(self.mlp_norm(x))

    def step(self, x, cache, mask, position):
        found, cache = self.attention.step(self.attention_norm(x), cache, mask=mask, position=position)
        x = x + found
        return x + self.mlp(self.mlp_norm(x)), cache


class Llama(nn.Module):
    """Tokens (batch, length) to the logits of the next token (batch, length, vocabulary)."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)

    def forward(self, tokens, *, mask=None):
        """Return the logits; `mask` hides further keys beside the future ones."""
        visible = masks.causal if mask is None else masks.causal & mask
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, visible)
        return self.logits(x)

    def step(self, tokens, caches, *, mask=None, last=False):
        """Return the logits of the next tokens of each sequence, or of the last one alone, and the longer caches.

        There is a cache for each layer, all of one length: start with `model.caches()`. `mask` is about all tokens,
        old and new.
        """
        if len(caches) != len(self.blocks):
            raise ValueError(f"caches has {len(caches)} entries: expected {len(self.blocks)}, one a layer")
        visible = masks.causal if mask is None else masks.causal & mask
        x, longer = self.embed(tokens), []
        attention = self.blocks[0].attention
        positions = caches[0].positions(tokens.shape[-1], tokens.device)
        position = attention.position.at(positions, attention.d_head, x.dtype)
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block.step(x, cache, visible, position)
            longer.append(cache)
        return self.logits(x[:, -1:] if last else x), longer

    def logits(self, x):
        """Compare what the last layer left with every token that there is: (…, d_model) to (…, vocabulary)."""
        return nn.functional.linear(self.norm(x), self.embed.weight)

    def caches(self, padding=0):
        """Return an empty cache a layer, for sequences with so many tokens of padding in front: one number, or (b,)."""
        return [Cache(-padding)] * len(self.blocks)

    def attention_maps(self, tokens, *, mask=None) -> torch.Tensor:
        """Return the weights of every head in this very pass: (layers, batch, heads, queries, keys)."""
        return attention_maps(self, tokens, mask=mask)


_HUB_NAMES = (
    (r"^model\.", ""),
    (r"^embed_tokens\.", "embed."),
    (r"^layers\.", "blocks."),
    (r"\.self_attn\.o_proj\.", ".attention.out_proj."),
    (r"\.self_attn\.", ".attention."),
    (r"\.input_layernorm\.", ".attention_norm."),
    (r"\.post_attention_layernorm\.", ".mlp_norm."),
    (r"\.mlp\.(gate|up|down)_proj\.", r".mlp.\1."),
)


def from_hub_names(state):
    """Return the weights of a `LlamaForCausalLM` with tied embeddings under our names."""
    return renamed(state, _HUB_NAMES, without=r"^lm_head\.")
