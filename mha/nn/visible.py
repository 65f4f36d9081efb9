"""A mask as torch tensors: the same rule as in NumPy, evaluated on the device, whole or a few rows at a time."""

import numpy as np
import torch

from mha import masks, shapes

__all__ = ["is_triangle", "visible"]

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


def _shown(call, device, rows):
    def arange(stop):
        return torch.arange(stop, device=device)

    def table(values):
        return torch.as_tensor(values if isinstance(values, torch.Tensor) else np.array(values), device=device)

    return shapes.visible(call, arange=arange, table=table, rows=rows)
