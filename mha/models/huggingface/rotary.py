"""The rotation that a Hugging Face configuration asks for, as a position scheme of ours."""

import sys
from typing import NamedTuple

import torch

from mha.nn.rotary import Rotary, RotaryFrequencies

__all__ = ["Rotation", "rotation"]


class Rotation(NamedTuple):
    """A position scheme, and the angles as the layers there take them."""

    position: Rotary | RotaryFrequencies
    embeddings: object  # (x) -> (cos, sin)


def rotation(layer, embedding, d_head, layout="half"):
    """Return the `Rotation` of a layer, whose own module names the class `embedding` that makes its angles."""
    rope = layer.config.rope_parameters
    if any(kind in rope["rope_type"] for kind in ("dynamic", "longrope")):
        raise ValueError(
            f"rope_type is {rope['rope_type']}: its frequencies change with the length; expected fixed ones"
        )
    modules = (sys.modules[kind.__module__] for kind in type(layer).__mro__)
    theirs = next(getattr(module, embedding) for module in modules if hasattr(module, embedding))(layer.config)
    turning = 2 * len(theirs.inv_freq)
    width = None if turning == d_head else turning
    if rope["rope_type"] == "default":
        position = Rotary(float(rope["rope_theta"]), layout, width)
    else:
        position = RotaryFrequencies(theirs.inv_freq.double(), layout, width, float(theirs.attention_scaling))

    def embeddings(x):
        cos, sin = theirs(x.float(), torch.arange(x.shape[-2], device=x.device)[None])
        return cos.to(x.dtype), sin.to(x.dtype)

    return Rotation(position, embeddings)
