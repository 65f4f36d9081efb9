"""What a query may not see has no effect on it, whatever it holds: it is selected away, never multiplied by 0."""

import math
from typing import Any, NamedTuple

import torch

from mha.nn import formula
from mha.nn.modes import readable

__all__ = ["Selected", "finite", "harmless", "poisoned", "select"]


class Selected(NamedTuple):
    """Inputs without what could spoil others; `poison` is added to the output unless None."""

    q: torch.Tensor
    k: torch.Tensor
    v: Any
    poison: Any = None
    spoiled: bool = False  # what is seen by some could spoil the others: only `visible_infinities` may compute


def select(q, k, v, see, scale=1.0):
    """Return q, k, v with zeros in the keys that nobody sees and in the queries that see nothing.

    Where torch only traces or transforms, no decision may depend on the numbers: there every key holding a NaN or an
    infinity becomes zero, and each row that sees one is poisoned whole. `v` may be None, where only scores are wanted.
    """
    if not readable(*(x for x in (q, k, v) if x is not None)):
        return poisoned(q, k, v, see)
    if harmless(q, k, v, scale):
        return Selected(q, k, v)
    seen = _seen(see, k.shape[-3])[..., None]
    q = torch.where(see.any(-1, keepdim=True), q, 0.0)
    k, v = (None if x is None else torch.where(seen, x, 0.0) for x in (k, v))
    return Selected(q, k, v, spoiled=not harmless(q, k, v, scale))


def _seen(see, num_kv_heads):
    """Tell of each key whether some query sees it: (…, g | 1, j)."""
    by_key = see if see.ndim < 3 or see.shape[-3] == 1 else formula.by_group(see, num_kv_heads)
    return by_key.any(-2)


def poisoned(q, k, v, see):
    """Return q, k, v with zeros in every key that holds a NaN or an infinity; the rows that see one are NaN whole."""
    bad = ~k.isfinite().all(-1)
    if v is not None:
        bad = bad | ~v.isfinite().all(-1)
    kept = (_seen(see, k.shape[-3]) & ~bad)[..., None]
    k, v = (None if x is None else torch.where(kept, x, 0.0) for x in (k, v))
    bad = bad.repeat_interleave(q.shape[-3] // k.shape[-3], -2)
    sees_bad = (see & bad[..., None, :]).any(-1, keepdim=True)
    poison = torch.where(sees_bad, math.nan, 0.0).to(q.dtype)  # added: gradients which are zero stay exactly zero
    return Selected(torch.where(see.any(-1, keepdim=True), q, 0.0), k, v, poison)


def harmless(q, k, v=None, scale=1.0):
    """Tell whether every score is finite, so that −inf hides it and 0 times its value is 0: by norms, which bound it.

    A number near the largest of its dtype may pass for harmful, which costs time only.
    """
    largest_score = _norm(q) * _norm(k) * max(1.0, abs(scale))
    largest = torch.finfo(torch.promote_types(q.dtype, torch.float32)).max
    return largest_score < largest and (v is None or _norm(v) < math.inf)


def _norm(x):
    wide = torch.float32 if x.dtype is torch.float16 else None
    return torch.linalg.vector_norm(x.detach(), dtype=wide).item()


def finite(*tensors):
    """Tell whether all entries are finite: by one sum a tensor, cheaper than a look at every entry.

    Finite entries whose sum overflows count as not finite, which costs time only.
    """
    total = 0.0
    for x in tensors:
        x = x.detach() if x.requires_grad else x
        total += (x.sum(dtype=torch.float32) if x.dtype is torch.float16 else x.sum()).item()
    return math.isfinite(total)
