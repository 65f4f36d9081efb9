"""What decoders without a source share: whole passes, steps with caches, logits, and the weights of a pass."""

from torch import nn

from mha import masks
from mha.models.probe import attention_maps
from mha.models.tokens import check_caches, check_length, check_tokens, places
from mha.nn.cache import Cache

__all__ = ["Decoder"]


class Decoder(nn.Module):
    """Tokens (batch, length) to the logits of the next token (batch, length, vocabulary).

    A family says what its tokens become before the first block, in `embedded`, and owns `embed`, `blocks` and `norm`.
    """

    def embedded(self, tokens, positions):
        """Return what the first block reads: (batch, length, d_model)."""
        return self.embed(tokens)

    def forward(self, tokens, *, mask=None):
        """Return the logits; `mask` hides further keys beside the future ones."""
        self._check(tokens, Cache())
        x, visible = self.embedded(tokens, places(tokens)), _visible(mask)
        for block in self.blocks:
            x = block(x, mask=visible)
        return self.logits(x)

    def step(self, tokens, caches, *, mask=None, last=False):
        """Return the logits of the next tokens of each sequence, or of the last one alone, and the longer caches.

        There is a cache for each layer, all of one length: start with `model.caches()`. `mask` is about all tokens,
        old and new.
        """
        check_caches(caches, self.blocks)
        self._check(tokens, caches[0])
        positions = caches[0].positions(tokens.shape[-1], tokens.device)
        x, visible, longer = self.embedded(tokens, positions), _visible(mask), []
        attention = self.blocks[0].attention
        scheme = attention.position
        once = scheme.at(positions, attention.d_head, x.dtype) if hasattr(scheme, "at") else None
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block.step(x, cache, mask=visible, position=once)
            longer.append(cache)
        return self.logits(x[:, -1:] if last else x), longer

    def logits(self, x):
        """Compare what the last block left with every token that there is: (…, d_model) to (…, vocabulary)."""
        return nn.functional.linear(self.norm(x), self.embed.weight)

    def caches(self, padding=0):
        """Return an empty cache a layer, for sequences with so many tokens of padding in front: one number, or (b,)."""
        return [Cache(-padding)] * len(self.blocks)

    def attention_maps(self, tokens, *, mask=None):
        """Return the weights of every head in this very pass: (layers, batch, heads, queries, keys)."""
        return attention_maps(self, tokens, mask=mask)

    def _check(self, tokens, cache):
        check_tokens("tokens", tokens, self.config.vocab_size)
        most = getattr(self.config, "max_length", None)  # none: a Llama's rotation has no last position
        if most is not None:
            check_length("tokens", cache.slots_after(tokens.shape[-1]), most)


def _visible(mask):
    return masks.causal if mask is None else masks.causal & mask
