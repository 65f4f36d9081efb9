"""The four axes (b, h, n, width) that a fused operator takes, with one width and a key head for each query head.

A group of query heads with one key head becomes a sample of its own, in which the key head stands once: no copies.
"""

import torch.nn.functional as F

__all__ = ["fold", "fold_pairs", "unfold"]


def fold(call, q, k, v):
    """Return q as (samples, heads, n, width), and k and v with as many heads or one."""
    if q.ndim == k.ndim == v.ndim == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2] and q.shape[3] == v.shape[3]:
        return q, k, v
    width = max(q.shape[-1], v.shape[-1])
    q, k, v = (_one_batch_axis(_widened(x, width), call.batch_shape) for x in (q, k, v))
    per_group = call.num_heads // call.num_kv_heads
    if per_group > 1:
        q = q.reshape(-1, per_group, *q.shape[-2:])
        k, v = (x.flatten(0, 1).unsqueeze(1) for x in (k, v))
    return q, k, v


def fold_pairs(call, see):
    """Return what broadcasts to the weights as what broadcasts to the folded ones."""
    if see.ndim < 4:
        see = see.reshape((1,) * (4 - see.ndim) + see.shape)
    if see.shape[:-3] != (1,):
        see = _one_batch_axis(see, call.batch_shape)
    per_group = call.num_heads // call.num_kv_heads
    if per_group > 1 and see.shape[:2] != (1, 1):
        see = see.expand(call.batch, call.num_heads, -1, -1).reshape(-1, per_group, *see.shape[-2:])
    return see


def unfold(call, out, d_value):
    """Return the output with the axes of the call."""
    return out[..., :d_value].reshape(*call.weights_shape[:-1], d_value)


def _widened(x, width):
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def _one_batch_axis(x, batch_shape):
    return x.expand(*batch_shape, *x.shape[-3:]).reshape(-1, *x.shape[-3:])
