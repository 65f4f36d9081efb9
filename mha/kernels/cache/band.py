"""What decoding can see: the first keys of each sample, no farther behind and ahead of a query than so many."""

from functools import reduce
from typing import NamedTuple

import torch

from mha.masks import And, Mask
from mha.masks.distances import Causal, Window
from mha.masks.padding import Lengths

__all__ = ["Band", "band_of"]

FARTHEST = 2**61  # positions and distances below it add up within 64 bits


class Band(NamedTuple):
    """i − left ≤ j ≤ i + right and j < lengths[b]; None bounds nothing."""

    left: int | None = None
    right: int | None = None
    lengths: "torch.Tensor | None" = None

    def __and__(self, other):
        return Band(*(_smaller(*pair) for pair in zip(self, other, strict=True)))


def band_of(mask: Mask | None, device) -> Band:
    """Return the band that a mask is, or raise."""
    if mask is None:
        return Band()
    terms = mask.terms() if isinstance(mask, And) else [mask]
    return reduce(Band.__and__, [_band_of_term(term, device) for term in terms])


def _band_of_term(term, device):
    match term:
        case Causal():
            return Band(right=0)
        case Window():
            return Band(*(None if distance > FARTHEST else distance for distance in (term.left, term.right)))
        case Lengths():
            n = (
                term.n if isinstance(term.n, torch.Tensor) else torch.tensor(term.n)
            )  # its own array cannot be written to
            return Band(lengths=n.to(device))
    raise ValueError(
        f"mask has the term {term!r}: expected causal, window and lengths, joined by &; "
        "mha.kernels.attention takes every mask"
    )


def _smaller(one, two):
    if one is None or two is None:
        return two if one is None else one
    return torch.minimum(one, two) if isinstance(one, torch.Tensor) else min(one, two)
