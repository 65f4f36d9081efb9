"""The state space of Mamba-2 as attention, a matrix of weights. Same meaning as `mha.reference`."""

import torch

from mha import shapes
from mha.nn import checks
from mha.nn.formula import wide
from mha.nn.linear.chunks import FORGETS_ALL

__all__ = ["decay_mask", "state_space_weights"]


def decay_mask(log_decay: "Float[Tensor, '*b n']") -> "Float[Tensor, '*b n n']":
    """Return L: what is left at token i of what token j wrote, e^(Σ log_decay of j < k ≤ i), and 0 for j > i."""
    checks.tensors(log_decay=log_decay)
    shapes.check_rank("log_decay", log_decay, ("length",))
    log_decay = wide(log_decay)
    since = log_decay.clamp(min=FORGETS_ALL[log_decay.dtype]).cumsum(-1)
    between = since[..., :, None] - since[..., None, :]
    later = torch.ones_like(between, dtype=torch.bool).tril()
    return between.masked_fill(~later, -torch.inf).exp()


def state_space_weights(dt: "Float[Tensor, '*b h n']", A, B, C) -> "Float[Tensor, '*b h n n']":
    """Return L ∘ (C Bᵀ) · dt, with which y = weights x + D x from an empty state, x (…, h, n, e).

    Dao and Gu (2024). Arguments are those of `selective_state_space`.
    """
    checks.tensors(dt=dt, A=A, B=B, C=C)
    shapes.check_state_space(dt[..., None], dt, A, B, C)
    keys, queries = (wide(one).repeat_interleave(dt.shape[-2] // one.shape[-3], -3) for one in (B, C))
    return decay_mask(dt * A[:, None]) * (queries @ keys.mT) * dt[..., None, :]
