"""A mask as torch tensors: the same rule as in NumPy, evaluated on the device, whole or a few rows at a time."""

from functools import partial

import numpy as np
import torch

from mha import masks, shapes
from mha.nn.modes import readable

__all__ = ["is_triangle", "only_hides", "table", "visible", "with_bias"]

SMALLEST_SCALE = torch.finfo(torch.float32).tiny


def visible(call, device, bias=None, rows=slice(None)):
    """Return which pairs count: None if all, else a tensor that broadcasts to the weights (of these rows).

    A pair counts if the mask shows it and its bias is above −inf, which hides like a mask.
    """
    see = _shown(call, device, rows)
    if bias is None:
        return see
    finite = bias != -torch.inf
    return finite if see is None else see & finite


def only_hides(bias):
    """Tell whether a bias can be a mask: 0 or −inf throughout, of a mask's axes, and no gradient is asked of it."""
    if bias.ndim not in (1, 2, 4) or bias.requires_grad or not bias.is_cpu or not readable(bias):
        return False
    return bool(((bias == 0) | (bias == -torch.inf)).all())


def with_bias(mask, bias, n_q, n_k):
    """Return the mask that hides what it did and what a bias of 0 and −inf hides."""
    see = (bias == 0).expand(*bias.shape[:-2], n_q, n_k)
    return see if mask is None else masks.as_mask(mask) & masks.dense(see)


def is_triangle(call):
    """Tell whether the mask is causal over as many queries as keys, which fused operators know by themselves.

    They put −inf before they scale: a scale that is not positive in float32 would turn it into NaN or +inf.
    """
    return (
        isinstance(call.mask, masks.Causal)
        and isinstance(call.q_start, int)
        and call.q_start == call.n_k - call.n_q == 0
        and call.scale >= SMALLEST_SCALE
    )


def table(values, device):
    """Return the numbers of a mask as a tensor of its own."""
    return torch.as_tensor(values if isinstance(values, torch.Tensor) else np.array(values), device=device)


def _shown(call, device, rows):
    def arange(stop):
        return torch.arange(stop, device=device)

    return shapes.visible(call, arange=arange, table=partial(table, device=device), rows=rows)
