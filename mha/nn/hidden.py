"""What a query may not see has no effect on it, whatever it holds: it is selected away, never multiplied by 0."""

import math

import torch

from mha.nn.modes import readable

__all__ = ["finite", "select"]


def select(q, k, v, see):
    """Return q, k, v with the rows that could spoil others zeroed, and what to add to the output (or None).

    Keys holding a NaN or an infinity become zero, and so do queries that see nothing. A query that does see such a
    key deserves its NaN: that is *added* to its output, so that gradients which are zero stay exactly zero.
    `v` may be None, where only scores are wanted.
    """
    given = [x for x in (q, k, v) if x is not None]
    if readable(*given) and finite(*given):
        return q, k, v, None
    bad = ~k.isfinite().all(-1)
    if v is not None:
        bad = bad | ~v.isfinite().all(-1)
        v = torch.where(bad[..., None], 0.0, v)
    k = torch.where(bad[..., None], 0.0, k)
    bad = bad.repeat_interleave(q.shape[-3] // k.shape[-3], -2)
    sees_bad = (see & bad[..., None, :]).any(-1, keepdim=True)
    poison = torch.where(sees_bad, math.nan, 0.0).to(q.dtype)
    return torch.where(see.any(-1, keepdim=True), q, 0.0), k, v, poison


def finite(*tensors):
    """Tell whether all entries are finite: by one sum a tensor, cheaper than a look at every entry.

    Finite entries whose sum overflows count as not finite, which costs time only.
    """
    total, *rest = (x.detach().sum() for x in tensors)
    for more in rest:
        total = total + more
    return math.isfinite(total)
