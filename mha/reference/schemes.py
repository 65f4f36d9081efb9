"""Where queries and keys stand, told to a position scheme."""

import numpy as np

from mha import shapes


def placed(position, q, k, *, bias=None, mask=None, scale=None, q_start=None):
    """Return q and k turned, and the bias with what a position scheme adds to it.

    A scheme has any of `rotate(x, positions)`, `bias(q_positions, k_positions)` and `content_bias(q, k, q_positions,
    k_positions, scale)`; what it adds is in units of scores. Keys stand at their slots, and the queries where the mask
    sees them: without `q_start`, the last at the last (valid) key.
    """
    call = shapes.check(q, k, mask=mask, scale=scale, q_start=q_start)
    at_q, at_k = np.asarray(call.q_start)[..., None] + np.arange(call.n_q), np.arange(call.n_k)
    if at_q.ndim > 1:
        at_q = at_q.reshape(*call.batch_shape, call.n_q)
    if hasattr(position, "rotate"):
        q, k = position.rotate(q, at_q), position.rotate(k, at_k)
    terms = [] if bias is None else [bias]
    if hasattr(position, "bias"):
        terms.append(shapes.check_scheme_bias(position, position.bias(at_q, at_k), q))
    if hasattr(position, "content_bias"):
        terms.append(position.content_bias(q, k, at_q, at_k, call.scale))
    return q, k, sum(terms[1:], terms[0]) if terms else None
