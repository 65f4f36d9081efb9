"""`GPTNeoXAttention`: of each head, only the first coordinates turn. Pythia is one."""

from einops import rearrange

from mha import masks
from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.rotary import rotation
from mha.models.huggingface.weights import interleaved, layer_around, of_linear

__all__ = ["convert"]


def convert(layer, *, layout="half"):
    """Pair a `GPTNeoXAttention` with ours, whose rotation has its `width`; `layout` is as for Llama."""
    turn, double = rotation(layer, "GPTNeoXRotaryEmbedding", layer.head_size, layout), double_copy(layer)
    num_heads = layer.config.num_attention_heads
    fused = [None if x is None else rearrange(x, "(h three d) ... -> three (h d) ...", h=num_heads, three=3)
             for x in of_linear(layer.query_key_value)]  # fmt: skip
    q, k, v = zip(*([None] * 3 if x is None else x for x in fused), strict=True)
    if layout == "interleaved":
        q, k = (interleaved(x, num_heads, turn.position.width) for x in (q, k))
    options = {"num_heads": num_heads, "position": turn.position, "dropout": layer.attention_dropout}

    def theirs(x, hide):
        return double(x, position_embeddings=turn.embeddings(x), attention_mask=hide)[0]

    stored = "query_key_value with [Q | K | V] of each head; rotated pairs (c, c + width/2)"
    return Pair(layer_around(q, k, v, of_linear(layer.dense), **options), theirs, stored, masks.causal)
