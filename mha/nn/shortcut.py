"""A short way for the usual call: queries, keys and values alike, a mask or none, no other option.

The bookkeeping of the general way would cost more than a tenth of the time at a hundred positions. This way reads
little and gives up at the first doubt: whatever is unusual, wrong or not finite is left to the general one.
"""

import torch

from mha import masks
from mha.nn.fused import fused
from mha.nn.hidden import finite, harmless
from mha.nn.modes import undisturbed

__all__ = ["usual_call"]

SHORTEST = 64  # with fewer keys than a vector register holds, the operator takes a row of NaN for an empty one
DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def usual_call(q, k, v, mask):
    """Return the output, or None: then the general way has the call."""
    if not (type(q) is type(k) is type(v) is torch.Tensor and undisturbed()):
        return None
    if not (q.dtype is k.dtype is v.dtype and q.dtype in DTYPES and q.is_cpu and q.ndim == k.ndim == 4):
        return None
    if not (q.layout is k.layout is v.layout is torch.strided):
        return None
    shape = q.shape
    if k.shape != v.shape or k.shape[2] < SHORTEST or 0 in shape or 0 in k.shape:
        return None
    scale = shape[3] ** -0.5
    if shape != k.shape:
        return _by_group(q, k, v, scale) if mask is None else None
    if mask is None:
        return fused(q, k, v, None, False, scale)
    if mask is masks.causal:
        out = fused(q, k, v, None, True, scale)
        last = out.detach().select(2, -1)  # the last query sees every key
        return out if (finite(last, k) if out.requires_grad else finite(last)) else None
    see = _table(mask, *shape[:3])
    return None if see is None or not harmless(q, k, v, scale) else fused(q, k, v, see, False, scale)


def _by_group(q, k, v, scale):
    """Attend to all keys, the query heads of one key head as rows of one head: so the newest row reads a cache."""
    batch, num_heads, n_q, width = q.shape
    num_kv_heads = k.shape[1]
    if k.shape[0] != batch or k.shape[3] != width or num_heads % num_kv_heads:
        return None
    rows = q.reshape(batch, num_kv_heads, -1, width)
    return fused(rows, k, v, None, False, scale).reshape(batch, num_heads, n_q, width)


def _table(mask, batch, num_heads, n):
    """Return the four axes of a boolean tensor with a row for each query and a column for each key, or None."""
    table = mask.table if type(mask) is masks.Dense else mask
    if type(table) is not torch.Tensor or table.dtype is not torch.bool or not table.is_cpu:
        return None
    shape = table.shape
    if len(shape) not in (2, 4) or shape[-2] != n or shape[-1] != n:
        return None
    if len(shape) == 2:
        return table[None, None]
    return table if shape[0] in (1, batch) and shape[1] in (1, num_heads) else None
