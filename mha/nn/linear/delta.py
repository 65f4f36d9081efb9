"""The delta rule on torch tensors: the meaning of `mha.reference`, computed in chunks.

One triangular system a chunk gives the corrections of all its tokens, as far as the state before does not matter, and
what each reads from that state; both are solved at once for all chunks, and only the state goes from chunk to chunk.
"""

import torch

from mha.nn.formula import alike
from mha.nn.linear.chunks import cut, joined
from mha.nn.modes import own_precision

__all__ = ["delta_rule"]


def delta_rule(
    q: "Float[Tensor, '*b n d']",
    k: "Float[Tensor, '*b n d']",
    v: "Float[Tensor, '*b n e']",
    beta,
    *,
    state=None,
    log_decay=None,
    chunk=64,
):
    """Correct the state where k reads it, token by token: return the output and the last state (…, h, d, e).

    `beta` (…, h, n) in (0, 1] is the share of the correction, for keys of norm 1; 0 leaves the state alone. With a
    `log_decay`, which comes first, this is the gated delta rule. A returned state continues the sequence.
    """
    rows = cut(q, k, v, state, chunk, beta=beta, log_decay=log_decay)
    with own_precision(q):
        output, last = in_chunks(*rows)
    return joined(output, *alike(q, k, v)), last


def in_chunks(q, k, v, state, beta, log_decay):
    """Return the output of each chunk (…, c, s, e) and the last state, from q, k, v (…, c, s, width)."""
    since = torch.zeros_like(beta) if log_decay is None else log_decay.cumsum(-1)
    whole = since[..., -1:]
    between = since[..., :, None] - since[..., None, :]
    later = torch.ones_like(between, dtype=torch.bool).tril()
    kept = between.masked_fill(~later, -torch.inf).exp()
    weights, late = q @ k.mT * kept, (k * (whole - since).exp()[..., None]).mT
    q, shares = q * since.exp()[..., None], beta[..., None]
    earlier = shares * (k @ k.mT) * kept  # of which the system has what is below the diagonal, and ones on it
    wanted, read = (shares * v, shares * since.exp()[..., None] * k)
    wanted, read = (torch.linalg.solve_triangular(earlier, x, upper=False, unitriangular=True) for x in (wanted, read))
    outputs, whole = [], whole[..., None].exp()
    for c in range(v.shape[-3]):
        corrections = wanted[..., c, :, :] - read[..., c, :, :] @ state
        outputs.append(q[..., c, :, :] @ state + weights[..., c, :, :] @ corrections)
        state = whole[..., c, :, :] * state + late[..., c, :, :] @ corrections
    return torch.stack(outputs, -3), state
