"""`BertAttention`: four projections of their own; the residual and the norm around it stay outside."""

from mha import masks
from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.weights import layer_around, of_linear

__all__ = ["convert"]


def convert(layer):
    """Pair a `BertAttention` (query, key, value, output.dense) with ours."""
    inner, double = layer.self, double_copy(layer)
    linears = inner.query, inner.key, inner.value, layer.output.dense
    options = {"num_heads": inner.num_attention_heads, "dropout": inner.dropout.p}

    def theirs(x, hide):
        context = {"encoder_hidden_states": x} if layer.is_cross_attention else {}
        return double.output.dense(double.self(x, attention_mask=hide, **context)[0])

    mask = masks.causal if inner.is_causal else None  # in a decoder
    return Pair(layer_around(*map(of_linear, linears), **options), theirs, "separate query, key, value", mask)
