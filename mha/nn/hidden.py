"""What a query may not see has no effect on it, whatever it holds: it is selected away, never multiplied by 0."""

import math
from typing import Any, NamedTuple

import torch

from mha.nn import formula
from mha.nn.modes import readable

__all__ = ["Selected", "finite", "select"]


class Selected(NamedTuple):
    """Inputs without what could spoil others; `poison` is added to the output unless None."""

    q: torch.Tensor
    k: torch.Tensor
    v: Any
    poison: Any = None
    spoiled: bool = False  # a NaN or an infinity is left where a query sees it: only `visible_infinities` may compute


def select(q, k, v, see):
    """Return q, k, v with zeros in the keys that nobody sees and in the queries that see nothing.

    Where torch only traces or transforms, no decision may depend on the numbers: there every key holding a NaN or an
    infinity becomes zero, and each row that sees one is poisoned whole. `v` may be None, where only scores are wanted.
    """
    given = [x for x in (q, k, v) if x is not None]
    if not readable(*given):
        return _poisoned(q, k, v, see)
    if finite(*given):
        return Selected(q, k, v)
    by_key = see if see.ndim < 3 or see.shape[-3] == 1 else formula.by_group(see, k.shape[-3])
    seen = by_key.any(-2)[..., None]
    q = torch.where(see.any(-1, keepdim=True), q, 0.0)
    k, v = (None if x is None else torch.where(seen, x, 0.0) for x in (k, v))
    return Selected(q, k, v, spoiled=not finite(*(x for x in (k, v) if x is not None)))


def _poisoned(q, k, v, see):
    bad = ~k.isfinite().all(-1)
    if v is not None:
        bad = bad | ~v.isfinite().all(-1)
        v = torch.where(bad[..., None], 0.0, v)
    k = torch.where(bad[..., None], 0.0, k)
    bad = bad.repeat_interleave(q.shape[-3] // k.shape[-3], -2)
    sees_bad = (see & bad[..., None, :]).any(-1, keepdim=True)
    poison = torch.where(sees_bad, math.nan, 0.0).to(q.dtype)  # added: gradients which are zero stay exactly zero
    return Selected(torch.where(see.any(-1, keepdim=True), q, 0.0), k, v, poison)


def finite(*tensors):
    """Tell whether all entries are finite: by one sum a tensor, cheaper than a look at every entry.

    Finite entries whose sum overflows count as not finite, which costs time only.
    """
    total = 0.0
    for x in tensors:
        x = x.detach() if x.requires_grad else x
        total += (x.sum(dtype=torch.float32) if x.dtype is torch.float16 else x.sum()).item()
    return math.isfinite(total)
