"""How many bytes decoding keeps of the positions it has seen."""

from mha.cost.sizes import counts
from mha.integers import count


def kv_cache_bytes(n, num_kv_heads, d_head, *, d_value=None, num_layers=1, batch=1, itemsize=2):
    """Return the size of the keys and values of n positions, in bytes.   Book: {eq}`kv-cache-size`.

    `d_value` is the width of a value if it is not that of a key.
    """
    d_value = d_head if d_value is None else d_value
    num_kv_heads, d_head, d_value = counts(num_kv_heads=num_kv_heads, d_head=d_head, d_value=d_value)
    return _all(n, num_kv_heads * (d_head + d_value), num_layers, batch, itemsize)


def latent_cache_bytes(n, latent, *, num_layers=1, batch=1, itemsize=2):
    """Return the size of what multi-head latent attention keeps: one latent and one rotated key for all heads."""
    return _all(n, latent.d_latent + latent.d_rope, num_layers, batch, itemsize)


def linear_state_bytes(num_heads, d_features, d_value, *, num_layers=1, batch=1, itemsize=4):
    """Return the size of what linear attention keeps of any number of positions.   Book: {eq}`linear-cost`.

    A matrix for each query head, with a column for the denominator; sums have at least float32, hence `itemsize`.
    """
    num_heads, d_features, d_value = counts(num_heads=num_heads, d_features=d_features, d_value=d_value)
    return _all(1, num_heads * d_features * (d_value + 1), num_layers, batch, itemsize)


def _all(n, width, num_layers, batch, itemsize):
    num_layers, itemsize = counts(num_layers=num_layers, itemsize=itemsize)
    return count("n", n) * width * num_layers * count("batch", batch) * itemsize
