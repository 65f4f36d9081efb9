"""The state space of Mamba-2 as attention, a matrix of weights. Same meaning as `mha.reference`."""

import torch

from mha import shapes
from mha.nn import checks
from mha.nn.formula import wide

__all__ = ["decay_mask", "state_space_weights"]


def decay_mask(log_decay: "Float[Tensor, '*b n']") -> "Float[Tensor, '*b n n']":
    """Return L: what is left at token i of what token j wrote, e^(Σ log_decay of j < k ≤ i), and 0 for j > i."""
    checks.tensors(log_decay=log_decay)
    shapes.check_rank("log_decay", log_decay, ("length",))
    steps = wide(log_decay)[..., :, None].expand(*log_decay.shape, log_decay.shape[-1])
    seen = torch.ones_like(steps, dtype=torch.bool).tril()
    since = steps.masked_fill(~seen.tril(-1), 0.0).cumsum(-2)  # a difference of two sums would lose digits
    return since.masked_fill(~seen, -torch.inf).exp()


def state_space_weights(dt: "Float[Tensor, '*b h n']", A, B, C) -> "Float[Tensor, '*b h n n']":
    """Return L ∘ (C Bᵀ) · dt, with which y = weights x + D x from an empty state, x (…, h, n, e).

    Dao and Gu (2024). Arguments are those of `selective_state_space`.
    """
    checks.tensors(dt=dt, A=A, B=B, C=C)
    shapes.check_state_space(dt[..., None], dt, A, B, C)
    keys, queries = (wide(one).repeat_interleave(dt.shape[-2] // one.shape[-3], -3) for one in (B, C))
    return decay_mask(dt * A[:, None]) * (queries @ keys.mT) * dt[..., None, :]
