"""The Transformer (Vaswani et al. 2017): an encoder reads the source, a decoder writes the target over what it read."""

from dataclasses import dataclass, replace

import torch
from torch import nn

from mha import masks
from mha.analysis.recording import capture
from mha.models.probe import stacked
from mha.models.start import check_counts
from mha.models.tokens import check_caches, check_length, check_tokens, places
from mha.nn import checks
from mha.nn.block import DecoderBlock, DecoderCache, EncoderBlock
from mha.nn.cache import Cache
from mha.nn.position import SinusoidalPositions

__all__ = ["Given", "Seq2Seq", "Seq2SeqConfig"]


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Sizes of a model, the same on both sides; `max_length` is the most tokens of a source, and of a target."""

    source_vocab: int
    target_vocab: int
    d_model: int = 128
    num_heads: int = 4
    num_layers: int = 2  # of the encoder, and of the decoder
    d_mlp: int = 512
    norm_first: bool = True  # False is the paper's
    activation: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_length: int = 512
    norm_eps: float = 1e-5


class Seq2Seq(nn.Module):
    """Source tokens and target tokens so far, to the logits of each next target token (batch, length, vocabulary).

    As in the paper, positions are sines and cosines, embeddings are scaled by √d_model, and the logits compare with
    the target embeddings. The first token of a target is a start token; with a special token for padding, the loss
    leaves it out. Padding of the source is hidden by `source_keep` (batch, length), True at the real tokens.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        check_counts(config, "source_vocab", "target_vocab", "num_layers")
        self.config = config
        self.source_embed = nn.Embedding(config.source_vocab, config.d_model)
        self.target_embed = nn.Embedding(config.target_vocab, config.d_model)
        self.positions = SinusoidalPositions(config.d_model)
        self.embed_dropout = nn.Dropout(config.dropout)
        sizes = config.d_model, config.num_heads, config.d_mlp
        options = {name: getattr(config, name)
                   for name in ("norm_first", "norm_eps", "activation", "dropout", "attention_dropout")}  # fmt: skip
        self.encoder = nn.ModuleList(EncoderBlock(*sizes, **options) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(DecoderBlock(*sizes, **options) for _ in range(config.num_layers))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(config.d_model, eps=config.norm_eps) if config.norm_first else nn.Identity() for _ in range(2)
        )
        for embed in (self.source_embed, self.target_embed):
            nn.init.normal_(embed.weight, std=config.d_model**-0.5)

    def forward(self, source, target, *, source_keep=None):
        """Return the logits after each token of the target, which sees itself and those before it."""
        memory, memory_mask = self.encode(source, keep=source_keep), _mask(source_keep)
        check_tokens("target", target, self.config.target_vocab)
        check_length("target", target.shape[-1], self.config.max_length)
        if len(target) != len(source):
            raise ValueError(f"target has {len(target)} samples and source has {len(source)}: expected as many")
        x = self.embedded(target, self.target_embed, places(target))
        for block in self.decoder:
            x = block(x, memory, memory_mask=memory_mask)
        return self.logits(x)

    def encode(self, source, *, keep=None):
        """Return what the encoder makes of the source: (batch, length, d_model)."""
        check_tokens("source", source, self.config.source_vocab)
        check_length("source", source.shape[-1], self.config.max_length)
        if keep is not None:
            checks.keep("source_keep", keep, source.shape)
        x, mask = self.embedded(source, self.source_embed, places(source, keep)), _mask(keep)
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x)

    def given(self, source, *, keep=None):
        """Return the decoder over this source, read once; every decoding function takes it as it takes a `GPT`."""
        memory = self.encode(source, keep=keep)
        return Given(self, [block.cache(memory, keep=keep) for block in self.decoder])

    def logits(self, x):
        """Compare what the last block left with every target token: (…, d_model) to (…, target vocabulary)."""
        return nn.functional.linear(self.decoder_norm(x), self.target_embed.weight)

    @torch.no_grad()
    def attention_maps(self, source, target, *, source_keep=None):
        """Return the weights of target tokens on source tokens in this very pass: (layers, batch, heads, i, j)."""
        with capture(self) as seen:
            self(source, target, source_keep=source_keep)
        return stacked(seen[block.cross_attention].weights for block in self.decoder)

    def embedded(self, tokens, table, positions):
        """Return tokens as the first block reads them: their rows of a table, scaled, with their positions."""
        x = self.positions(table(tokens) * self.config.d_model**0.5, positions)
        return self.embed_dropout(x)


@dataclass(frozen=True, eq=False)
class Given:
    """A decoder over a source that has been read: it has `caches` and `step`, as a decoder without a source has."""

    model: Seq2Seq
    start: list[DecoderCache]  # of each layer

    def caches(self, padding=0):
        """Return a cache a layer, for targets with so many tokens of padding in front: one number, or (batch,)."""
        return [replace(cache, own=Cache(-padding)) for cache in self.start]

    def step(self, tokens, caches, *, last=False):
        """Return the logits after each new token of the targets, or after the last one alone, and the longer caches."""
        model, longer = self.model, []
        check_tokens("tokens", tokens, model.config.target_vocab)
        check_caches(caches, model.decoder)
        positions = caches[0].positions(tokens.shape[-1], tokens.device)
        check_length("tokens", caches[0].own.slots_after(tokens.shape[-1]), model.config.max_length)
        x = model.embedded(tokens, model.target_embed, positions)
        for block, cache in zip(model.decoder, caches, strict=True):
            x, cache = block.step(x, cache)
            longer.append(cache)
        return model.logits(x[:, -1:] if last else x), longer


def _mask(keep):
    return None if keep is None else masks.key_padding(keep)
