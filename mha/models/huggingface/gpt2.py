"""`GPT2Attention`: q, k and v in the columns of one weight, stored (d_in, d_out)."""

from mha import masks
from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.weights import layer_around

__all__ = ["convert"]


def convert(layer):
    """Pair a `GPT2Attention` (c_attn holds [Q | K | V], c_proj the output) with ours."""
    if layer.is_cross_attention:
        raise ValueError("layer is a GPT2Attention over a context: expected self-attention")
    fused = zip(layer.c_attn.weight.T.chunk(3), layer.c_attn.bias.chunk(3), strict=True)
    out, double = (layer.c_proj.weight.T, layer.c_proj.bias), double_copy(layer)
    double.reorder_and_upcast_attn = False  # a matter of float16, and it takes nothing else
    plain = layer.head_dim**-0.5
    options = {"num_heads": layer.num_heads, "dropout": layer.attn_dropout.p}
    options |= {} if layer.scaling == plain else {"scale": layer.scaling}

    def theirs(x, hide):
        return double(x, attention_mask=hide)[0]

    return Pair(layer_around(*fused, out, **options), theirs, "columns [Q | K | V] of c_attn", masks.causal)
