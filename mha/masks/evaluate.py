"""A mask becomes an array: where the queries stand, and which of all pairs are visible."""

import numpy as np

from mha.integers import integer, integers
from mha.masks.arrays import frozen, in_numpy, is_one, on_host

__all__ = ["query_start", "visible"]

FARTHEST = 2**62  # positions farther out wrap around when lengths are added


def query_start(mask, n_q, n_k, q_start=None):
    """Return the position of the first query: an int, or one per sample.

    By default the last query stands at the last key, and with `lengths` or `key_padding` at the last valid key of its
    sample. Then no query stands before slot 0, unless there are more queries than keys.
    """
    if q_start is not None:
        return _positions("q_start", q_start)
    valid = mask.valid_lengths() if mask is not None else None
    return n_k - n_q if valid is None else (valid - n_q).clip(min=min(0, n_k - n_q))


def visible(mask, n_q, n_k, *, start, batch=1, num_heads=1, rows=slice(None), arange=np.arange, table=in_numpy):
    """Evaluate a mask on every pair: (i, j), or (b | 1, h | 1, i, j) if its tables tell samples or heads apart.

    `rows` picks query slots; `arange` and `table` make and move arrays, so torch evaluates the same rule on any device.
    """
    one = is_one(start)
    ready = mask.ready(n_q, n_k) if one else None
    if ready is not None:
        see = frozen(table(ready[:, :, rows]))
        return see[0, 0] if tuple(see.shape[:2]) == (1, 1) else see
    start = start if one else table(start)
    b, h = arange(batch)[:, None, None, None], arange(num_heads)[None, :, None, None]
    i, j = arange(n_q)[rows][:, None], arange(n_k)
    positions = (start if one else start.reshape(-1, 1, 1, 1)) + i
    see = mask.placed(start).on_tables(table)(b, h, positions, j)
    if tuple(see.shape[-2:]) != (i.shape[0], n_k):
        see = see & ((i >= 0) & (j >= 0))
    return see[0, 0] if see.ndim == 4 and tuple(see.shape[:2]) == (1, 1) else see


def _positions(name, value):
    """Return one integer as an int, one per sample as a flat array; far from where 64 bits end."""
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0):
        start = integers(name, value, "an integer, or one integer per sample")
        ends = (int(start.min()), int(start.max())) if on_host(start) and len(start) else ()
    else:
        start = integer(name, value)
        ends = (start,)
    if any(not -FARTHEST <= end <= FARTHEST for end in ends):
        raise ValueError(f"{name} is {value}: expected positions from −2⁶² to 2⁶²")
    return start
