"""Attention layers of Hugging Face transformers as ours, each with a receipt: both ran, and this is the difference."""

from contextlib import contextmanager

from mha.models.huggingface import bert, bloom, gpt2, gpt_neox, gpt_oss, llama, swin, t5, vit
from mha.models.huggingface.receipt import Receipt, checked
from mha.models.huggingface.stand import swapped_layers

__all__ = ["Receipt", "from_hf", "swapped"]

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


SWAPPED = {
    "BertAttention": lambda layer: lambda found, x: layer.output.LayerNorm(layer.output.dropout(found) + x),
    "GPT2Attention": lambda layer: lambda found, x: layer.resid_dropout(found),
    "GPTNeoXAttention": lambda layer: None,
    "GptOssAttention": lambda layer: None,
    "LlamaAttention": lambda layer: None,
    "ViTAttention": lambda layer: None,
}  # what the layer does behind its attention


def from_hf(layer, **options):
    """Return an attention layer of transformers as a `MultiHeadAttention`, and the `Receipt` of their comparison.

    Raises where the two are not the same function. Call ours with the mask of the receipt. `options` are those of the
    family: `layout` of the rotated pairs for Llama, GPT-NeoX and gpt-oss, `position` shared by the layers of T5.
    """
    name = _family(layer)
    if name is None:
        raise TypeError(f"layer is a {type(layer).__name__}: expected one of {', '.join(KNOWN)}")
    pair = KNOWN[name](layer, **options)
    receipt = checked(type(layer).__name__, pair)
    return pair.ours.train(layer.training), receipt


@contextmanager
def swapped(model):
    """Let a model of transformers run on layers of ours until the block ends, each converted and checked by `from_hf`.

    ::

        with swapped(model), capture(model) as seen:
            model(tokens, use_cache=False)

    What works on our layers works on it then: `capture`, `without_heads`, `remove_heads`. The outputs are the same up
    to rounding, and masks reach the layers as the model makes them. Ours hold copies of the weights; afterwards the
    layers of the model are the very ones from before, untouched.

    Raises TypeError for a layer that is in no such family, and ValueError where there is none; within the block,
    ValueError where a layer gets a cache or a context.
    """
    found = 0

    def convert(layer):
        nonlocal found
        name = _family(layer)
        if name is None:
            return None
        if name not in SWAPPED:
            raise TypeError(f"model has a {type(layer).__name__}: expected one of {', '.join(SWAPPED)}")
        found += 1
        return *from_hf(layer), SWAPPED[name](layer)

    with swapped_layers(model, convert):
        if not found:
            raise ValueError(
                f"model is a {type(model).__name__} without a layer to swap: expected {', '.join(SWAPPED)}"
            )
        yield model


def _family(layer):
    """Return the name of the known class that a layer is of, or None."""
    return next((kind.__name__ for kind in type(layer).__mro__ if kind.__name__ in KNOWN), None)
