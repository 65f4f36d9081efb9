"""Relative positions as a bias: one learned number a head for each bucket of distances (Raffel et al., 2020)."""

import math

import numpy as np

from mha import shapes
from mha.reference.relative.pairs import distances as distances_of


def relative_buckets(distances: "Int[Array, '*b']", *, num_buckets=32, max_distance=128, bidirectional=True):
    """Return the bucket of each distance, position of the key minus position of the query.

    Half of the buckets hold one distance each; the others hold ranges that grow like powers, and the last holds all
    from `max_distance` on. With `bidirectional` half of all buckets are for keys ahead; without it, keys ahead share
    the bucket 0 with the key at the query itself.   Book: {eq}`relative-buckets`.
    """
    distances = shapes.int64("distances", distances)
    shapes.check_buckets(num_buckets, max_distance, bidirectional)
    ahead = num_buckets // 2 * (distances > 0) if bidirectional else 0
    far = np.abs(distances) if bidirectional else np.maximum(-distances, 0)
    size = num_buckets // 2 if bidirectional else num_buckets
    exact = size // 2
    growth = np.log(np.maximum(far, exact) / exact) / math.log(max_distance / exact) * (size - exact)
    return ahead + np.where(far < exact, far, np.minimum(exact + growth.astype(int), size - 1))


def relative_bias(
    table: "Float[Array, 'buckets h']", q_positions: "Int[Array, '*b i']", k_positions: "Int[Array, '*b j']", **options
) -> "Float[Array, '*b h i j']":
    """Return what each head adds to the score of each pair: the entry of its bucket.   Book: {eq}`relative-bias`.

    `options` are those of `relative_buckets`.
    """
    table = shapes.float64("table", table)
    shapes.check_shape("table", table, (len(table), table.shape[-1]))
    buckets = relative_buckets(distances_of(q_positions, k_positions), num_buckets=len(table), **options)
    return np.moveaxis(table[buckets], -1, -3)
