"""The sizes that a layer is described by, checked."""

from dataclasses import dataclass
from typing import NamedTuple

from mha import shapes
from mha.integers import count


def counts(**sizes):
    """Return each size as an int of at least 1, or raise by its name."""
    return tuple(count(name, size, least=1) for name, size in sizes.items())


@dataclass(frozen=True, kw_only=True)
class Latent:
    """The widths of multi-head latent attention: all heads read one latent and one rotated key a position.

    `d_head` columns of a head's key and `d_value` of its value are made from the latent of `d_latent` columns;
    `d_rope` further columns of the key carry the position. Queries come from a latent too if `d_query_latent` is given.
    """

    d_latent: int
    d_head: int
    d_rope: int
    d_value: int
    d_query_latent: int | None = None

    def __post_init__(self):
        counts(**{name: size for name, size in vars(self).items() if size is not None})


def head_counts(num_heads, num_kv_heads):
    """Return the numbers of query heads and of key heads; as many key heads as query heads unless told."""
    num_heads = count("num_heads", num_heads, least=1)
    num_kv_heads = num_heads if num_kv_heads is None else count("num_kv_heads", num_kv_heads, least=1)
    shapes.check_groups(num_heads, num_kv_heads)
    return num_heads, num_kv_heads


def widths(d_model, num_heads, num_kv_heads, d_head):
    """Return d_model and the widths of all query heads and of all key heads together; groups may be of unequal size."""
    d_model, num_heads = count("d_model", d_model, least=1), count("num_heads", num_heads, least=1)
    if d_head is None:
        shapes.check_heads(d_model, num_heads)
        d_head = d_model // num_heads
    d_head = count("d_head", d_head, least=1)
    num_kv_heads = num_heads if num_kv_heads is None else count("num_kv_heads", num_kv_heads, least=1)
    if num_kv_heads > num_heads:
        raise ValueError(f"num_kv_heads is {num_kv_heads} and num_heads is {num_heads}: a key head would have no query")
    return d_model, num_heads * d_head, num_kv_heads * d_head


def visible_pairs(pairs, n, n_k):
    """Return the number of visible (query, key) pairs of one head: all of them unless told."""
    pairs = n * n_k if pairs is None else count("pairs", pairs)
    if pairs > n * n_k:
        raise ValueError(f"pairs is {pairs}: expected at most n · n_k = {n * n_k}, the pairs of one head")
    return pairs


class Tensors(NamedTuple):
    """How many numbers each tensor of one call of attention holds."""

    q: int
    k: int
    v: int
    scores: int
    rows: int  # one number for each row of the scores
    output: int


def tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch):
    """Return the `Tensors` of one call: n_k is n, and d_value is d_head, unless told."""
    num_heads, num_kv_heads = head_counts(num_heads, num_kv_heads)
    d_head, d_value = counts(d_head=d_head, d_value=d_head if d_value is None else d_value)
    n, batch = count("n", n), count("batch", batch)
    n_k = n if n_k is None else count("n_k", n_k)
    rows, keys = batch * num_heads * n, batch * num_kv_heads * n_k
    return Tensors(rows * d_head, keys * d_head, keys * d_value, rows * n_k, rows, rows * d_value)
