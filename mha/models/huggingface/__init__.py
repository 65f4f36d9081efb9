"""Attention layers of Hugging Face transformers as ours, each with a receipt: both ran, and this is the difference."""

from mha.models.huggingface import bert, bloom, gpt2, gpt_neox, gpt_oss, llama, swin, t5, vit
from mha.models.huggingface.receipt import Receipt, checked

__all__ = ["Receipt", "from_hf"]

KNOWN = {
    "BertAttention": bert.convert,
    "BloomAttention": bloom.convert,
    "GPT2Attention": gpt2.convert,
    "GPTNeoXAttention": gpt_neox.convert,
    "GptOssAttention": gpt_oss.convert,
    "LlamaAttention": llama.convert,
    "SwinAttention": swin.convert,
    "T5Attention": t5.convert,
    "ViTAttention": vit.convert,
}


def from_hf(layer, **options):
    """Return an attention layer of transformers as a `MultiHeadAttention`, and the `Receipt` of their comparison.

    Raises where the two are not the same function. Call ours with the mask of the receipt. `options` are those of the
    family: `layout` of the rotated pairs for Llama, GPT-NeoX and gpt-oss, `position` shared by the layers of T5.
    """
    name = next((kind.__name__ for kind in type(layer).__mro__ if kind.__name__ in KNOWN), None)
    if name is None:
        raise TypeError(f"layer is a {type(layer).__name__}: expected one of {', '.join(KNOWN)}")
    pair = KNOWN[name](layer, **options)
    receipt = checked(type(layer).__name__, pair)
    return pair.ours.train(layer.training), receipt
