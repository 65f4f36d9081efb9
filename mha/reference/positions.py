"""Where queries and keys stand, told to a position scheme."""

import numpy as np

from mha import shapes


def placed(position, q, k, *, bias=None, mask=None, q_start=None):
    """Return q and k turned, and the bias with what a position scheme adds to it.

    A scheme has `rotate(x, positions)`, or `bias(q_positions, k_positions)`, or both. Keys stand at their slots, and
    the queries where the mask sees them: without `q_start`, the last at the last (valid) key.
    """
    call = shapes.check(q, k, mask=mask, q_start=q_start)
    at_q, at_k = np.asarray(call.q_start)[..., None] + np.arange(call.n_q), np.arange(call.n_k)
    if at_q.ndim > 1:
        at_q = at_q.reshape(*call.batch_shape, call.n_q)
    if hasattr(position, "rotate"):
        q, k = position.rotate(q, at_q), position.rotate(k, at_k)
    if hasattr(position, "bias"):
        bias = position.bias(at_q, at_k) + (0.0 if bias is None else bias)
    return q, k, bias
