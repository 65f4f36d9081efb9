"""The blocks of a Transformer: attention and a feed-forward layer, each added to what it reads (Vaswani et al. 2017).

Same meaning as `mha.reference.block`.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from mha import masks
from mha.nn import checks, layer_checks, torch_block
from mha.nn.cache import Cache
from mha.nn.heads import MultiHeadAttention
from mha.nn.mlp import FeedForward

__all__ = ["DecoderBlock", "DecoderCache", "EncoderBlock", "FeedForward"]

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


def stream_norm(kind, d_model, eps, *, bias=True, device=None, dtype=None):
    """Return a norm of the stream: "layer" (Ba et al. 2016) or "rms", which has no bias (Zhang and Sennrich 2019)."""
    extra = {"bias": bias} if kind == "layer" else {}
    return NORMS[kind](d_model, eps=eps, device=device, dtype=dtype, **extra)


class Block(nn.Module):
    """What both blocks share: the layers, their norms, and how a layer joins the stream."""

    reads_memory = False

    def __init__(
        self, d_model, num_heads, d_mlp, *, norm_first=True, norm="layer", norm_eps=1e-5, activation="gelu", bias=True,
        dropout=0.0, attention_dropout=0.0, position=None, device=None, dtype=None, **attention,
    ):  # fmt: skip
        super().__init__()
        layer_checks.check_flags(norm_first=norm_first)
        layer_checks.check_choice("norm", norm, NORMS)
        checks.positive("norm_eps", norm_eps)
        layer_checks.check_probability("dropout", dropout)
        layer_checks.check_probability("attention_dropout", attention_dropout)
        self.norm_first, self.dropout = norm_first, dropout
        shared = {"bias": bias, "device": device, "dtype": dtype}
        attention |= shared | {"dropout": attention_dropout}
        self.attention = MultiHeadAttention(d_model, num_heads, position=position, **attention)
        self.attention_norm = stream_norm(norm, d_model, norm_eps, **shared)
        if self.reads_memory:
            self.cross_attention = MultiHeadAttention(d_model, num_heads, **attention)
            self.cross_norm = stream_norm(norm, d_model, norm_eps, **shared)
        self.feed_forward = FeedForward(d_model, d_mlp, activation=activation, **shared)
        self.feed_forward_norm = stream_norm(norm, d_model, norm_eps, **shared)

    def _read(self, x, norm):
        """Return what a layer reads from the stream x."""
        return norm(x) if self.norm_first else x

    def _add(self, x, found, norm):
        """Return the stream x with what a layer found."""
        x = x + functional.dropout(found, self.dropout, self.training)
        return x if self.norm_first else norm(x)

    def _fed_forward(self, x):
        norm = self.feed_forward_norm
        return self._add(x, self.feed_forward(self._read(x, norm)), norm)

    def extra_repr(self):
        return f"norm_first={self.norm_first}, dropout={self.dropout}"


class EncoderBlock(Block):
    """Self-attention, then a feed-forward layer, each added to the stream.   Book: {eq}`encoder-block`

    `norm_first` normalises what a layer reads, x + f(norm(x)) (Xiong et al. 2020); otherwise the norm acts on the sum,
    norm(x + f(x)), as in the first Transformer. `norm` is "layer" or "rms", `activation` is that of `FeedForward`.
    Dropout acts on what a layer adds, `attention_dropout` on the weights of attention. `attention` are further options
    of `MultiHeadAttention`: position, num_kv_heads, qk_norm … With `mask=masks.causal` it is the block of a GPT.
    """

    def forward(self, x, *, mask=None):
        """Return (batch, length, d_model)."""
        norm = self.attention_norm
        return self._fed_forward(self._add(x, self.attention(self._read(x, norm), mask=mask), norm))

    def step(self, x, cache, *, mask=None, position=None):
        """Return the output of the next rows of each sequence and the cache with them, as `MultiHeadAttention.step`."""
        norm = self.attention_norm
        found, cache = self.attention.step(self._read(x, norm), cache, mask=mask, position=position)
        return self._fed_forward(self._add(x, found, norm)), cache

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer):
        """Return the same layer as ours, with copies of the weights; inputs are batch first."""
        return torch_block.convert_from(cls, layer, nn.TransformerEncoderLayer)


class DecoderBlock(Block):
    """Self-attention, attention to a memory, then a feed-forward layer.   Book: {eq}`decoder-block`

    The memory is what an encoder has made of the source, (batch, source length, d_model). Options are those of
    `EncoderBlock`; a position scheme acts among the block's own tokens and not between them and the memory.
    """

    reads_memory = True

    def forward(self, x, memory, *, mask=masks.causal, memory_mask=None):
        """Return (batch, length, d_model); `mask` is among the rows of x, `memory_mask` between them and the memory."""
        checks.tensors(memory=memory)
        norm, cross = self.attention_norm, self.cross_norm
        x = self._add(x, self.attention(self._read(x, norm), mask=mask), norm)
        found = self.cross_attention(self._read(x, cross), memory, mask=memory_mask)
        return self._fed_forward(self._add(x, found, cross))

    def cache(self, memory, *, keep=None, padding=0):
        """Return the cache that a sequence over this memory starts with; its keys and values are worked out here, once.

        `keep` (batch, source length) is True at the real tokens of the memory. `padding` tokens in front of a sequence
        do not count: one number, or (batch,).
        """
        checks.tensors(memory=memory)
        if keep is not None:
            checks.keep("keep", keep, memory.shape[:-1])
        return DecoderCache(Cache(-padding), self.cross_attention.remember(memory), keep)

    def step(self, x, cache, *, mask=masks.causal, position=None):
        """Return the output of the next rows of each sequence and the cache with them; start with `cache(memory)`."""
        if not isinstance(cache, DecoderCache):
            raise TypeError(f"cache is a {type(cache).__name__}: expected a DecoderCache, as from block.cache(memory)")
        samples = cache.memory.rows[0].shape[0]
        if x.shape[0] != samples:
            raise ValueError(f"x has shape {tuple(x.shape)}: expected {samples} samples, as many as the memory")
        norm, cross = self.attention_norm, self.cross_norm
        found, own = self.attention.step(self._read(x, norm), cache.own, mask=mask, position=position)
        x = self._add(x, found, norm)
        hidden = None if cache.keep is None else masks.key_padding(cache.keep)
        x = self._add(x, self.cross_attention.recall(self._read(x, cross), cache.memory, mask=hidden), cross)
        return self._fed_forward(x), replace(cache, own=own)

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer):
        """Return the same layer as ours, with copies of the weights; inputs are batch first."""
        return torch_block.convert_from(cls, layer, nn.TransformerDecoderLayer)


@dataclass(frozen=True, eq=False)
class DecoderCache:
    """What a decoder block remembers: its own rows so far, and keys and values of a memory that is complete."""

    own: Cache
    memory: Cache
    keep: Any = None  # (batch, source length): True at the real tokens

    @property
    def lengths(self):
        """Where the next row stands, as in `Cache`."""
        return self.own.lengths

    def positions(self, n, device=None):
        """Return where the next n rows stand: (n,), or (b, n) if the samples differ."""
        return self.own.positions(n, device)

    def crop(self, n):
        """Return the cache without the own rows at position n and later; n may differ by sample."""
        return replace(self, own=self.own.crop(n))

    def reorder(self, order):
        """Return the cache of the samples in `order`, which may repeat some and leave out others, as beams do."""
        memory = self.memory.reorder(order)
        keep = None if self.keep is None else self.keep[torch.as_tensor(order, device=self.keep.device)]
        return DecoderCache(self.own.reorder(order), memory, keep)
