"""The rotation that a Hugging Face configuration asks for, as a position scheme of ours."""

import sys
from typing import NamedTuple

import torch

from mha.nn.rotary import Rotary, RotaryFrequencies

__all__ = ["Rotation", "rotation"]


class Rotation(NamedTuple):
    """A position scheme, what it does to the scale, and the angles as the layers there take them."""

    position: Rotary | RotaryFrequencies
    gain: float  # of queries and of keys: the scores grow by its square
    embeddings: object  # (x) -> (cos, sin)


def rotation(layer, embedding, layout="half"):
    """Return the `Rotation` of a layer, whose own module names the class `embedding` that makes its angles."""
    rope = layer.config.rope_parameters
    if any(kind in rope["rope_type"] for kind in ("dynamic", "longrope")):
        raise ValueError(
            f"rope_type is {rope['rope_type']}: its frequencies change with the length; expected fixed ones"
        )
    modules = (sys.modules[kind.__module__] for kind in type(layer).__mro__)
    theirs = next(getattr(module, embedding) for module in modules if hasattr(module, embedding))(layer.config)
    if rope["rope_type"] == "default":
        position = Rotary(base=float(rope["rope_theta"]), layout=layout)
    else:
        position = RotaryFrequencies(tuple(theirs.inv_freq.double().tolist()), layout=layout)

    def embeddings(x):
        cos, sin = theirs(x.float(), torch.arange(x.shape[-2], device=x.device)[None])
        return cos.to(x.dtype), sin.to(x.dtype)

    return Rotation(position, float(theirs.attention_scaling), embeddings)
