"""Causal linear attention on torch tensors: the meaning of `mha.reference`, computed in chunks.

Within a chunk all pairs of tokens meet in matrix products; between chunks goes the state alone, so time and memory
are proportional to the length. `chunk` is the option that the reference's recurrence has no use for. State and sums
have at least float32. A NaN or an infinity spoils its whole chunk and all that follows.
"""

import torch
import torch.nn.functional as F

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import alike, wide
from mha.nn.modes import own_precision

__all__ = ["linear_attention", "linear_average"]

FORGETS_ALL = {torch.float32: -104.0, torch.float64: -746.0}  # e^x is 0: with less a sum would lose the other digits


def linear_attention(
    q: "Float[Tensor, '*b n d']",
    k: "Float[Tensor, '*b n d']",
    v: "Float[Tensor, '*b n e']",
    *,
    state=None,
    log_decay=None,
    chunk=64,
):
    """Add k vᵀ to the state, token by token, and read it with q: return the output and the last state (…, h, d, e).

    `log_decay` (…, h, n) is the logarithm of what each token leaves of the state before, −∞ where a document begins;
    (h, 1) is one number a head. A returned state continues the sequence. Any derivative exists.
    """
    options = {name: x for name, x in (("state", state), ("log_decay", log_decay)) if x is not None}
    checks.tensors(q=q, k=k, v=v, **options)
    lead = shapes.check_linear(q, k, v, state, log_decay)
    n, chunk = q.shape[-2], count("chunk", chunk, least=1)
    q, k, v = alike(q, k, v)
    dtype = q.dtype
    with own_precision(q):
        q, k, v = (chunks(wide(x), chunk) for x in (q, k, v))
        first = q.new_zeros(()) if state is None else state.to(q.dtype)
        first = first.expand(*lead, q.shape[-1], v.shape[-1])
        if log_decay is not None:
            log_decay = log_decay.to(q.dtype).clamp(min=FORGETS_ALL[q.dtype])
            every = log_decay.expand(*log_decay.shape[:-1], n)
            log_decay = chunks(every[..., None], chunk)[..., 0]
        output, last = in_chunks(q, k, v, first, log_decay)
    return output.flatten(-3, -2)[..., :n, :].to(dtype), last


def in_chunks(q, k, v, state, log_decay):
    """Return the output of each chunk (…, c, s, e) and the last state, from q, k, v (…, c, s, width)."""
    weights = q @ k.mT
    if log_decay is None:
        before, last = carry(state, k.mT @ v)
        return weights.tril() @ v + q @ before, last
    since = log_decay.cumsum(-1)  # from the beginning of the chunk up to each token
    whole = since[..., -1:]
    between = since[..., :, None] - since[..., None, :]
    later = torch.ones_like(between, dtype=torch.bool).tril()
    weights = weights * between.masked_fill(~later, -torch.inf).exp()
    before, last = carry(state, (k * (whole - since).exp()[..., None]).mT @ v, whole[..., None].exp())
    return weights @ v + (q * since.exp()[..., None]) @ before, last


def carry(state, added, kept=None):
    """Return the states before each chunk (…, c, d, e) and the one after the last."""
    before = []
    for c in range(added.shape[-3]):
        before.append(state)
        state = (state if kept is None else kept[..., c, :, :] * state) + added[..., c, :, :]
    return torch.stack(before, -3), state


def chunks(x, size):
    """Cut rows (…, n, width) into (…, c, s, width), at least one chunk, the last one filled up with zeros."""
    n = x.shape[-2]
    size = max(1, min(size, n))
    number = max(1, -(-n // size))
    return F.pad(x, (0, 0, 0, number * size - n)).unflatten(-2, (number, size))


def linear_average(q, k, v, *, state=None, log_decay=None, core=linear_attention):
    """Return the mean of the values, weighted by q·k, instead of their sum; 0 where the weights sum to 0.

    A column of ones behind v becomes that sum: the state is (…, h, d, e + 1). `core` is this floor's
    `linear_attention` or the kernels'.
    """
    checks.tensors(v=v)
    both, state = core(q, k, F.pad(v, (0, 1), value=1.0), state=state, log_decay=log_decay)
    total = both[..., -1:]
    return (both[..., :-1] / total.masked_fill(total == 0, 1.0)).masked_fill(total == 0, 0.0), state
