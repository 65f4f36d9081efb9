"""`LlamaAttention`: grouped heads that turn with their position. SmolLM2 is one."""

from mha import masks
from mha.models.huggingface.receipt import Pair, double_copy
from mha.models.huggingface.rotary import rotation
from mha.models.huggingface.weights import interleaved, layer_around, of_linear

__all__ = ["convert", "turned_pair"]


def convert(layer, *, layout="half"):
    """Pair a `LlamaAttention` with ours.

    Hugging Face stores the pairs of the rotation as (c, c + d/2), `layout="half"`; "interleaved" moves the rows of
    q_proj and k_proj so that they are (2c, 2c + 1), as in Meta's own files.
    """
    return turned_pair(layer, "LlamaRotaryEmbedding", masks.causal, layout)


def turned_pair(layer, embedding, mask, layout, **options):
    """Pair a layer of the Llama kind with ours; `embedding` names the class of its rotation."""
    turn, double = rotation(layer, embedding, layer.head_dim, layout), double_copy(layer)
    q, k, v, out = map(of_linear, (layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj))
    num_heads, num_kv_heads = (x.shape[0] // layer.head_dim for x, _ in (q, k))
    if layout == "interleaved":
        q, k = interleaved(q, num_heads), interleaved(k, num_kv_heads)
    options |= {"num_heads": num_heads, "position": turn.position, "dropout": layer.attention_dropout}

    def theirs(x, hide):
        return double(x, position_embeddings=turn.embeddings(x), attention_mask=hide)[0]

    stored = "separate q_proj, k_proj, v_proj; rotated pairs (c, c + d/2)"
    return Pair(layer_around(q, k, v, out, **options), theirs, stored, mask)
