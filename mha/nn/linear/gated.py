"""Gated linear attention on torch tensors: the meaning of `mha.reference`, computed in chunks.

The weight of a pair is a sum over channels, each with a decay of its own, which no matrix product of cumulated gates
gives: they overflow. Halved again and again, a chunk's lower left quarters are such products, with all exponents ≤ 0.
"""

import torch

from mha.nn.formula import alike
from mha.nn.linear.chunks import carry, cut, joined
from mha.nn.modes import own_precision

__all__ = ["gated_linear_attention"]

UNDIVIDED = 8  # tokens of which all pairs meet in all channels


def gated_linear_attention(
    q: "Float[Tensor, '*b n d']",
    k: "Float[Tensor, '*b n d']",
    v: "Float[Tensor, '*b n e']",
    log_gate,
    *,
    state=None,
    chunk=64,
):
    """Let every row of the state fade, add k vᵀ, read it with q: return the output and the last state (…, h, d, e).

    `log_gate` (…, h, n, d) is the logarithm of what each token leaves of each row, −∞ where a document begins. A
    returned state continues the sequence. Any derivative exists.
    """
    q_rows, k_rows, v_rows, first, log_gate = cut(q, k, v, state, chunk, log_gate=log_gate)
    since = log_gate.cumsum(-2)  # from the beginning of the chunk up to each token
    whole = since[..., -1:, :]
    with own_precision(q):
        added = (k_rows * (whole - since).exp()).mT @ v_rows
        before, last = carry(first, added, whole.exp().mT)
        output = faded_products(q_rows, k_rows, since) @ v_rows + (q_rows * since.exp()) @ before
    return joined(output, *alike(q, k, v)), last


def faded_products(q, k, since):
    """Return Σ_d q_id k_jd e^(since_id − since_jd) for j ≤ i, else 0, of tokens (…, s, d)."""
    n = q.shape[-2]
    if n <= UNDIVIDED:
        between = since[..., :, None, :] - since[..., None, :, :]
        later = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()[..., None]
        return (q[..., :, None, :] * k[..., None, :, :] * between.masked_fill(~later, -torch.inf).exp()).sum(-1)
    half = n // 2
    middle = since[..., half - 1 : half, :]
    early, late = slice(None, half), slice(half, None)
    upper, lower = (faded_products(*(x[..., part, :] for x in (q, k, since))) for part in (early, late))
    across = (q[..., late, :] * (since[..., late, :] - middle).exp()) @ (
        k[..., early, :] * (middle - since[..., early, :]).exp()
    ).mT
    nothing = upper.new_zeros(*upper.shape[:-1], n - half)
    return torch.cat([torch.cat([upper, nothing], -1), torch.cat([across, lower], -1)], -2)
