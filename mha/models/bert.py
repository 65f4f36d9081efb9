"""An encoder of the BERT family (Devlin et al. 2019): learned positions, post-norm blocks, GELU.

MiniLM-L6 is one, with `minilm.json` as its configuration. The pooler and the pre-training heads are left out.
"""

from dataclasses import dataclass

import torch
from torch import nn

from mha.models.naming import renamed
from mha.models.probe import attention_maps
from mha.nn.heads import MultiHeadAttention

__all__ = ["Bert", "BertConfig", "from_hub_names"]


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a model; `max_length` is the number of positions that it has learned."""

    vocab_size: int
    num_segments: int
    max_length: int
    num_layers: int
    d_model: int
    num_heads: int
    d_mlp: int
    norm_eps: float


class Block(nn.Module):
    """Attention, then two linear layers, each added to the stream, which is normalised after."""

    def __init__(self, config):
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.attention_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.mlp_up = nn.Linear(config.d_model, config.d_mlp)
        self.mlp_down = nn.Linear(config.d_mlp, config.d_model)
        self.mlp_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.attention(x, mask=mask))
        return self.mlp_norm(x + self.mlp_down(nn.functional.gelu(self.mlp_up(x))))


class Bert(nn.Module):
    """Tokens (batch, length) to their representations in context (batch, length, d_model)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_length, config.d_model)
        self.segments = nn.Embedding(config.num_segments, config.d_model)
        self.embed_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))

    def forward(self, tokens, *, segments=None, mask=None):
        """Return the last hidden states; `segments` are 0 unless given, `mask` hides keys, such as padding."""
        n = tokens.shape[-1]
        if n > self.config.max_length:
            raise ValueError(
                f"tokens has length {n}: expected at most {self.config.max_length}, the positions learned; "
                "cut the text into pieces"
            )
        segments = torch.zeros_like(tokens) if segments is None else segments
        x = self.embed(tokens) + self.positions(torch.arange(n, device=tokens.device)) + self.segments(segments)
        x = self.embed_norm(x)
        for block in self.blocks:
            x = block(x, mask)
        return x

    def attention_maps(self, tokens, *, segments=None, mask=None) -> torch.Tensor:
        """Return the weights of every head in this very pass: (layers, batch, heads, queries, keys)."""
        return attention_maps(self, tokens, segments=segments, mask=mask)


_HUB_NAMES = (
    (r"^bert\.", ""),
    (r"^embeddings\.word_embeddings\.", "embed."),
    (r"^embeddings\.position_embeddings\.", "positions."),
    (r"^embeddings\.token_type_embeddings\.", "segments."),
    (r"^embeddings\.LayerNorm\.", "embed_norm."),
    (r"^encoder\.layer\.", "blocks."),
    (r"\.attention\.self\.query\.", ".attention.q_proj."),
    (r"\.attention\.self\.key\.", ".attention.k_proj."),
    (r"\.attention\.self\.value\.", ".attention.v_proj."),
    (r"\.attention\.output\.dense\.", ".attention.out_proj."),
    (r"\.attention\.output\.LayerNorm\.", ".attention_norm."),
    (r"\.intermediate\.dense\.", ".mlp_up."),
    (r"\.output\.dense\.", ".mlp_down."),
    (r"\.output\.LayerNorm\.", ".mlp_norm."),
)


def from_hub_names(state):
    """Return the weights of a `BertModel` under our names, without the pooler and the position numbers."""
    return renamed(state, _HUB_NAMES, without=r"^pooler\.|position_ids$")
