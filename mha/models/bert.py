"""An encoder of the BERT family (Devlin et al. 2019): learned positions, post-norm blocks, GELU.

MiniLM-L6 is one, with `minilm.json` as its configuration. `BertForPreTraining` adds the two heads of its training.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from mha import shapes
from mha.models.naming import renamed
from mha.models.probe import attention_maps
from mha.models.start import check_counts, draw_weights
from mha.models.tokens import check_length, check_tokens, places
from mha.nn.block import EncoderBlock

__all__ = ["Bert", "BertConfig", "BertForPreTraining", "Predictions", "from_hub_names", "pretraining_from_hub_names"]


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
    dropout: float = 0.0
    attention_dropout: float = 0.0


class Bert(nn.Module):
    """Tokens (batch, length) to their representations in context (batch, length, d_model).

    What enters the first block is the normalised sum of token, position and segment.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        check_counts(config, "vocab_size", "max_length", "num_segments", "num_layers")
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_length, config.d_model)
        self.segments = nn.Embedding(config.num_segments, config.d_model)
        self.embed_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.embed_dropout = nn.Dropout(config.dropout)
        sizes = config.d_model, config.num_heads, config.d_mlp
        options = {name: getattr(config, name) for name in ("norm_eps", "dropout", "attention_dropout")}
        self.blocks = nn.ModuleList(EncoderBlock(*sizes, norm_first=False, **options) for _ in range(config.num_layers))
        draw_weights(self)

    def forward(self, tokens, *, segments=None, mask=None):
        """Return the last hidden states; `segments` are 0 unless given, `mask` hides keys, such as padding."""
        check_tokens("tokens", tokens, self.config.vocab_size)
        check_length("tokens", tokens.shape[-1], self.config.max_length)
        segments = torch.zeros_like(tokens) if segments is None else segments
        check_tokens("segments", segments, self.config.num_segments)
        shapes.check_shape("segments", segments, tokens.shape)
        x = self.embed(tokens) + self.positions(places(tokens)) + self.segments(segments)
        x = self.embed_dropout(self.embed_norm(x))
        for block in self.blocks:
            x = block(x, mask=mask)
        return x

    def attention_maps(self, tokens, *, segments=None, mask=None) -> torch.Tensor:
        """Return the weights of every head in this very pass: (layers, batch, heads, queries, keys)."""
        return attention_maps(self, tokens, segments=segments, mask=mask)


class Predictions(NamedTuple):
    """The logits of `BertForPreTraining`."""

    words: torch.Tensor  # (batch, length, vocabulary): which token stands here
    next_sentence: torch.Tensor  # (batch, 2): the second sentence follows the first, or is from elsewhere


class BertForPreTraining(nn.Module):
    """A `Bert` with the two heads it is trained by: which word is behind a mask, does the second sentence follow.

    The logits of words compare with the embeddings, after a layer and a norm; those of the pair read the first token.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.transform_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.word_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.pair = nn.Linear(config.d_model, 2)
        draw_weights(self)

    def forward(self, tokens, *, segments=None, mask=None):
        """Return the `Predictions`; `mask` hides keys, such as padding."""
        hidden = self.bert(tokens, segments=segments, mask=mask)
        return Predictions(self.words(hidden), self.next_sentence(hidden))

    def words(self, hidden):
        """Return the logits of the word at each hidden state: (…, d_model) to (…, vocabulary)."""
        read = self.transform_norm(nn.functional.gelu(self.transform(hidden)))
        return nn.functional.linear(read, self.bert.embed.weight, self.word_bias)

    def next_sentence(self, hidden):
        """Return the two logits of a pair, from the state of its first token: (…, length, d_model) to (…, 2)."""
        if hidden.shape[-2] == 0:
            raise ValueError(
                f"hidden has shape {tuple(hidden.shape)}: expected a token at least, for the first is read"
            )
        return self.pair(torch.tanh(self.pooler(hidden[..., 0, :])))


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
    (r"\.intermediate\.dense\.", ".feed_forward.up."),
    (r"\.output\.dense\.", ".feed_forward.down."),
    (r"\.output\.LayerNorm\.", ".feed_forward_norm."),
)


def from_hub_names(state):
    """Return the weights of a `BertModel` under our names, without the pooler and the position numbers."""
    return renamed(state, _HUB_NAMES, without=r"^pooler\.|position_ids$")


_PRETRAINING_NAMES = (
    (r"^cls\.predictions\.transform\.dense\.", "transform."),
    (r"^cls\.predictions\.transform\.LayerNorm\.", "transform_norm."),
    (r"^cls\.predictions\.bias$", "word_bias"),
    (r"^cls\.seq_relationship\.", "pair."),
    (r"^bert\.pooler\.dense\.", "pooler."),
)


def pretraining_from_hub_names(state):
    """Return the weights of a `BertForPreTraining` of transformers under our names."""
    encoder = from_hub_names({name[len("bert.") :]: x for name, x in state.items() if name.startswith("bert.")})
    heads = {name: x for name, x in state.items() if not re.match(r"bert\.(?!pooler)|cls\.predictions\.decoder", name)}
    return {f"bert.{name}": x for name, x in encoder.items()} | renamed(heads, _PRETRAINING_NAMES)
