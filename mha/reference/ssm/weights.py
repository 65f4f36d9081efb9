"""The state space of Mamba-2 as attention: a matrix of weights that no softmax has made (Dao and Gu, 2024)."""

import numpy as np

from mha import shapes
from mha.reference.linear.recurrent import FORGETS_ALL, decayed_since


def decay_mask(log_decay: "Float[Array, '*b n']") -> "Float[Array, '*b n n']":
    """Return L: what is left at token i of what token j wrote, e^(Σ log_decay of j < k ≤ i), and 0 for j > i.

    Where log_decay is 0 throughout it is the causal mask of zeros and ones.   Book: {eq}`ssm-decay`.
    """
    shapes.check_rank("log_decay", log_decay, ("length",))
    return np.exp(decayed_since(np.maximum(shapes.float64("log_decay", log_decay), FORGETS_ALL))[1])


def state_space_weights(dt: "Float[Array, '*b h n']", A, B, C) -> "Float[Array, '*b h n n']":
    """Return L ∘ (C Bᵀ) · dt, with which y = weights x + D x from an empty state, x (…, h, n, e).

    Arguments are those of `selective_state_space`. A row may be negative and need not sum to 1.
    Book: {eq}`ssm-attention`.
    """
    shapes.check_state_space(dt[..., None], dt, A, B, C)
    dt, A, B, C = (shapes.float64(name, one) for name, one in zip(("dt", "A", "B", "C"), (dt, A, B, C), strict=True))
    keys, queries = (np.repeat(one, dt.shape[-2] // one.shape[-3], axis=-3) for one in (B, C))
    return decay_mask(dt * A[:, None]) * (queries @ np.swapaxes(keys, -1, -2)) * dt[..., None, :]
