"""Causal linear attention on torch tensors: the meaning of `mha.reference`, computed in chunks.

Within a chunk all pairs of tokens meet in matrix products; between chunks goes the state alone, so time and memory
are proportional to the length. `chunk` is the option that the reference's recurrence has no use for. State and sums
have at least float32. A NaN or an infinity spoils its whole chunk and all that follows.
"""

import torch
import torch.nn.functional as F

from mha.integers import count
from mha.nn import checks
from mha.nn.formula import alike
from mha.nn.linear.chunks import carry, cut, joined
from mha.nn.modes import own_precision

__all__ = ["linear_attention", "linear_average", "retention_log_decay"]


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
    rows = cut(q, k, v, state, chunk, log_decay=log_decay)
    with own_precision(q):
        output, last = in_chunks(*rows)
    return joined(output, *alike(q, k, v)), last


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


def linear_average(q, k, v, *, state=None, log_decay=None, core=linear_attention):
    """Return the mean of the values, weighted by q·k, instead of their sum; 0 where the weights sum to 0.

    A column of ones behind v becomes that sum: the state is (…, h, d, e + 1). `core` is this floor's
    `linear_attention` or the kernels'.
    """
    checks.tensors(v=v)
    both, state = core(q, k, F.pad(v, (0, 1), value=1.0), state=state, log_decay=log_decay)
    total = both[..., -1:]
    return (both[..., :-1] / total.masked_fill(total == 0, 1.0)).masked_fill(total == 0, 0.0), state


def retention_log_decay(num_heads, *, device=None, dtype=None):
    """Return log γₕ, (h, 1), of γₕ = 1 − 2⁻⁵⁻ʰ, h = 0, 1, …: the fixed `log_decay` of each head of a retention.

    Sun et al. (2023), section 2.2. Computed in float64 and then rounded.
    """
    heads = torch.arange(count("num_heads", num_heads, least=1), dtype=torch.float64, device=device)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return torch.log1p(-(2.0 ** (-5.0 - heads)))[:, None].to(dtype)
