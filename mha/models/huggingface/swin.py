"""`SwinAttention`: within a window, a number for each offset of row and column."""

import torch

from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.weights import layer_around, of_linear
from mha.nn.relative import GridBias

__all__ = ["convert"]


def convert(layer):
    """Pair a `SwinAttention` with ours: each window is a sample, and a shifted one needs its mask."""
    linears, double = (layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj), double_copy(layer)
    position = _table(layer.relative_position_bias, layer.num_attention_heads)
    options = {"num_heads": layer.num_attention_heads, "dropout": layer.attention_dropout, "position": position}

    def theirs(x, hide):
        return double(x, hide)[0]

    rows, columns = position.window
    stored = "separate q_proj, k_proj, v_proj; offsets query minus key"
    return Pair(layer_around(*map(of_linear, linears), **options), theirs, stored, length=rows * columns)


def _table(theirs, num_heads):
    weight = theirs.relative_position_bias_table
    made = GridBias(num_heads, window=theirs.window_size, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        made.weight.copy_(weight)
    return made
