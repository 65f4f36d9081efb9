"""`ViTAttention`: four projections of their own, the first three with biases or without."""

from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.weights import layer_around, of_linear

__all__ = ["convert"]


def convert(layer):
    """Pair a `ViTAttention` with ours."""
    linears, double = (layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj), double_copy(layer)
    options = {"num_heads": layer.num_attention_heads, "dropout": layer.attention_dropout}

    def theirs(x, hide):
        return double(x, attention_mask=hide)[0]

    return Pair(layer_around(*map(of_linear, linears), **options), theirs, "separate q_proj, k_proj, v_proj")
