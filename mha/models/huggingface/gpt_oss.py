"""`GptOssAttention`: of the Llama kind, with a sink a head, frequencies of YaRN and a window in every other layer."""

import torch

from mha import masks
from mha.models.huggingface.llama import turned_pair

__all__ = ["convert"]


def convert(layer, *, layout="half"):
    """Pair a `GptOssAttention` with ours; of a sliding layer, the mask of the receipt holds the window."""
    mask = masks.causal if layer.sliding_window is None else masks.window_of(layer.sliding_window)
    pair = turned_pair(layer, "GptOssRotaryEmbedding", mask, layout, sinks=True)
    with torch.no_grad():
        pair.ours.sinks.copy_(layer.sinks)
    return pair
