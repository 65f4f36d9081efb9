"""Proof that a converted layer is the layer that it came from: both run on the same numbers."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from mha import masks
from mha.analysis.recording import capture
from mha.nn.heads import MultiHeadAttention

__all__ = ["Pair", "Receipt", "checked", "double_copy"]

TOLERANCE = (
    1e-5  # of how far outputs are apart: some layers keep angles and softmax in float32, and the rest is float64
)
SPREAD = 3.0  # of the scores, so that attention is not uniform and a fault shows
BATCH, LENGTH = 2, 19  # of the inputs


class Pair(NamedTuple):
    """A layer of ours, how to run theirs, and how the weights were stored there."""

    ours: MultiHeadAttention
    theirs: Callable[..., Any]  # (x, hide) -> output, in float64; hide is added to the scores
    layout: str  # of the projections and of the rotation
    mask: Any = None  # what its own model hides
    length: int = LENGTH  # of inputs that it takes


@dataclass(frozen=True)
class Receipt:
    """What two layers had in common when both ran on the same random inputs in float64."""

    layer: str  # the class that was converted
    layout: str
    mask: Any  # give it to our layer for the same answer
    difference: float  # the largest
    largest: float  # output of theirs
    shape: tuple[int, ...]  # of the inputs


def checked(name, pair):
    """Return the `Receipt` of two layers in float64, or raise if they are not the same function."""
    ours = double_copy(pair.ours)
    x = _inputs(name, ours, pair.length)
    hide = None if pair.mask is None else _as_numbers(pair.mask, x.shape[-2])
    with torch.no_grad():
        expected, found = pair.theirs(x, hide), ours(x, mask=pair.mask)
    difference, largest = float((found - expected).abs().max()), float(expected.abs().max())
    spread = float((expected - expected[:1, :1]).abs().max())  # a large bias of the output would hide a fault
    if spread == 0:
        raise ValueError(f"{name} gives every input the same output, and nothing is compared: its weights are zero")
    if not difference <= TOLERANCE * spread:
        raise ValueError(
            f"{name} and its conversion differ by {difference:.2g} where outputs vary by {spread:.2g}: expected at "
            f"most {TOLERANCE} of that; the layer does not compute what its class says, or not from {pair.layout}"
        )
    return Receipt(name, pair.layout, pair.mask, difference, largest, tuple(x.shape))


def double_copy(layer):
    """Return a copy of a layer in float64 that computes step by step: no dropout, no fused operator, on the CPU."""
    double = copy.deepcopy(layer).to("cpu", torch.float64).eval()
    if hasattr(double, "config"):
        double.config._attn_implementation = "eager"
    return double


def _inputs(name, ours, length):
    """Draw inputs, of a size at which the scores differ by about `SPREAD`."""
    make = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, length, ours.d_model, generator=make, dtype=torch.float64)
    with torch.no_grad(), capture(ours) as seen:
        ours(x)
    spread = float(seen[ours].scores.std())
    if spread == 0:
        raise ValueError(f"{name} scores all keys alike, and nothing is compared: its weights of q or k are zero")
    return x * (SPREAD / spread) ** 0.5


def _as_numbers(mask, n):
    see = torch.from_numpy(masks.as_mask(mask).dense(n, n).copy())
    return torch.zeros(n, n, dtype=torch.float64).masked_fill(~see, torch.finfo(torch.float64).min)[None, None]
