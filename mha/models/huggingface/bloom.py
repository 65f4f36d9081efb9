"""`BloomAttention`: linear biases by distance, and q, k and v of each head side by side in one weight."""

import torch
from einops import rearrange

from mha import masks
from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.weights import layer_around, of_linear
from mha.nn.relative import Alibi, alibi_slopes

__all__ = ["convert"]


def convert(layer):
    """Pair a `BloomAttention` with ours; theirs adds the input of the block, ours leaves that to the block."""
    num_heads, double = layer.num_heads, double_copy(layer)
    q, k, v = zip(*(_by_head(x, num_heads) for x in of_linear(layer.query_key_value)), strict=True)
    options = {"num_heads": num_heads, "position": Alibi(num_heads), "dropout": layer.attention_dropout.p}

    def theirs(x, hide):
        slopes = alibi_slopes(num_heads, dtype=x.dtype).repeat(len(x))
        alibi = slopes[:, None, None] * torch.arange(x.shape[-2])  # slope · j: the row's softmax sees no slope · i
        return double(x, torch.zeros_like(x), alibi, hide)[0]

    stored = "query_key_value with [Q | K | V] of each head"
    return Pair(layer_around(q, k, v, of_linear(layer.dense), **options), theirs, stored, masks.causal)


def _by_head(x, num_heads):
    return rearrange(x, "(h three d) ... -> three (h d) ...", h=num_heads, three=3)
