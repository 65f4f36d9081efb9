"""A decoder in small steps, each a method, so that a bug is one step replaced. What it does is right.

It is meant for float32 and float64: `rotate` computes angles in the dtype of x, and half of the digits are too few.
"""

import torch
from torch import nn

from mha.nn import alibi_slopes, attention


class Layer(nn.Module):
    """The weights of a pre-norm block, grouped heads included."""

    def __init__(self, d_model: int, d_shared: int):
        super().__init__()
        self.norm, self.feed_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.q_proj, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.k_proj, self.v_proj = nn.Linear(d_model, d_shared), nn.Linear(d_model, d_shared)
        self.feed = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))


class Decoder(nn.Module):
    """Tokens (b, n) to the logits of the next token (b, n, vocabulary), and a cache of keys and values."""

    def __init__(self, vocabulary: int, *, d_model=64, num_heads=4, num_kv_heads=2, num_layers=2):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.embed = nn.Embedding(vocabulary, d_model)
        self.layers = nn.ModuleList(Layer(d_model, d_model // num_heads * num_kv_heads) for _ in range(num_layers))
        self.norm, self.read = nn.LayerNorm(d_model), nn.Linear(d_model, vocabulary)

    def forward(self, tokens, cache=None, keep=None):
        """`cache` holds the tokens before these; `keep` (b, keys) is False on padding."""
        x, cache = self.stream(tokens, cache, keep)
        return self.read(self.last(x)), cache

    def stream(self, tokens, cache=None, keep=None):
        past = cache[0][0].shape[-2] if cache else 0
        mask = self.visible(tokens.shape[-1], past)
        mask = mask if keep is None else self.padded(mask, keep)
        x, longer = self.embed(tokens), []
        for number, layer in enumerate(self.layers):
            kept, read = self.normed(x, layer.norm)
            found, rows = self.heads(read, layer, self.of_layer(number, mask), past, cache[number] if cache else None)
            x, longer = kept + layer.out_proj(found), [*longer, rows]
            x = x + layer.feed(layer.feed_norm(x))
        return x, longer

    def heads(self, x, layer, mask, past, before):
        """Return what the heads found, joined, and the rows for the cache."""
        q = self.split(layer.q_proj(x), self.num_heads)
        k = self.split(layer.k_proj(x), self.num_kv_heads)
        v = self.split(layer.v_proj(x), self.num_kv_heads)
        positions = self.positions(x.shape[1], past)
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        if before is not None:
            k, v = (torch.cat(pair, -2) for pair in zip(before, (k, v), strict=True))
        bias = self.bias(positions, torch.arange(k.shape[-2]), self.num_heads)
        options = {"mask": mask} if bias is None else {"mask": mask, "bias": bias}
        shared = (self.shared(rows, self.num_heads) for rows in (k, v))
        return self.join(self.attend(q, *shared, **options)), (k, v)

    @staticmethod
    def attend(q, k, v, *, mask=None, bias=None):
        return attention(q, k, v, mask=mask, bias=bias)

    @staticmethod
    def visible(new, past):
        """The causal mask of the last `new` queries: True = attend."""
        return torch.ones(new, past + new, dtype=torch.bool).tril(past)

    @staticmethod
    def padded(mask, keep):
        return mask & keep[:, None, None, :]

    @staticmethod
    def of_layer(number, mask):
        return mask

    @staticmethod
    def positions(new, past):
        return past + torch.arange(new)

    @staticmethod
    def rotate(x, positions):
        """Turn component c together with component c + d/2."""
        half = x.shape[-1] // 2
        angles = positions[:, None] * 10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    @staticmethod
    def bias(q_positions, k_positions, num_heads):
        """What is added to the scores, (h, i, j): nothing here."""

    @staticmethod
    def split(x, num_heads):
        b, n, _ = x.shape
        return x.view(b, n, num_heads, -1).transpose(1, 2)

    @staticmethod
    def join(x):
        b, _, n, _ = x.shape
        return x.transpose(1, 2).reshape(b, n, -1)

    @staticmethod
    def shared(x, num_heads):
        """Give every query head its key head: query heads 0 and 1 share key head 0."""
        return x.repeat_interleave(num_heads // x.shape[1], 1)

    @staticmethod
    def normed(x, norm):
        """Return what is added to, and what the heads read."""
        return x, norm(x)

    def last(self, x):
        return self.norm(x)

    @staticmethod
    def pooled(x, keep):
        """The mean over the real tokens, (b, d_model)."""
        return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)


class Alibi(Decoder):
    """Right: a penalty for distance in place of the rotation."""

    @staticmethod
    def rotate(x, positions):
        return x

    @staticmethod
    def bias(q_positions, k_positions, num_heads):
        distances = k_positions - q_positions[:, None]
        return alibi_slopes(num_heads)[:, None, None] * distances
