"""Causal linear attention in chunks: the meaning of `mha.reference`, in two kernels that serve both directions.

With a state S per chunk, outputs are q S plus the pairs within the chunk. Every gradient is such an output again: dq is
that of (dO, V, K) with Sᵀ, and dk and dv are those of (V, dO, Q) and (K, Q, dO) from the last token to the first. A NaN
or an infinity spoils its whole chunk and all that follows.
"""

import math

import torch

from mha import shapes
from mha.kernels.limits import check_tensors, lack
from mha.kernels.linear.operators import forward
from mha.kernels.runtime import check_device

__all__ = ["linear_attention"]

PRECISIONS = "ieee", "tf32x3"
FORGETS_ALL = -104.0  # e^x is 0 in float32: with less a sum would lose the digits of the others


def linear_attention(
    q: "Float[Tensor, '*b n d']",
    k: "Float[Tensor, '*b n d']",
    v: "Float[Tensor, '*b n e']",
    *,
    state=None,
    log_decay=None,
    precision="ieee",
):
    """Add k vᵀ to the state, token by token, and read it with q: return the output and the last state (…, h, d, e).

    `log_decay` (…, h, n) is the logarithm of what each token leaves of the state before, −∞ where a document begins;
    (h, 1) is one number a head. The state is float32, and a returned one continues the sequence. `precision` says how
    float32 is multiplied: "ieee", or "tf32x3" on tensor cores. There is a first derivative.
    """
    options = {name: x for name, x in (("state", state), ("log_decay", log_decay)) if x is not None}
    check_tensors(q=q, k=k, v=v, **options)
    lead = shapes.check_linear(q, k, v, state, log_decay)
    error = lack(q, k, v, widest=None, **options)
    if error is not None:
        raise error
    check_device(q=q, k=k, v=v, **options)
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}: expected one of {PRECISIONS}")
    n, d, e = q.shape[-2], q.shape[-1], v.shape[-1]
    first = q.new_zeros((), dtype=torch.float32) if state is None else state.float()
    q, k, v, first = (folded(x, lead, size) for x, size in ((q, (n, d)), (k, (n, d)), (v, (n, e)), (first, (d, e))))
    if log_decay is not None:
        log_decay = folded(log_decay.float().clamp(min=FORGETS_ALL), lead, (n,))
    out, last = forward(q, k, v, first, log_decay, "tf32" if q.dtype.itemsize < 4 else precision)
    return out.reshape(*lead, n, e), last.reshape(*lead, d, e)


def folded(x, lead, size):
    """Return a tensor with the axes b and h before those of this size; a view where there is one."""
    return x.expand(*lead, *size).reshape(math.prod(lead[:-1]), lead[-1], *size)
