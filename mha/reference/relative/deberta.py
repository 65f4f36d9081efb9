"""Relative positions and contents asked by each other: disentangled attention (He et al., 2021)."""

import math

import numpy as np

from mha import shapes
from mha.reference.relative.pairs import default_scale, distances, repeated


def disentangled_bias(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    position_keys: "Float[Array, 'h r d']",
    position_queries: "Float[Array, 'h r d']",
    q_positions: "Int[Array, '*b i']",
    k_positions: "Int[Array, '*b j']",
    *,
    max_distance=None,
    paper_sign=False,
    scale=None,
) -> "Float[Array, '*b h i j']":
    """Return scale · (content to position + position to content): q_i and k_j against the rows of their distance.

    The tables have 2s rows a head, for the distances −s to s − 1, query minus key; with `max_distance` far ones share
    rows, as `log_buckets` tells. Both terms read the row of i − j, as the released code and its checkpoints do; with
    `paper_sign` the second reads that of j − i, as the paper says. The scale of the paper is 1/√(3d), for three
    terms: give it to q·k too.   Book: {eq}`disentangled`.
    """
    q, apart = shapes.float64("q", q), -distances(q_positions, k_positions)
    shapes.check_contents(q_positions, k_positions, q, k)
    tables = shapes.float64("position_keys", position_keys), shapes.float64("position_queries", position_queries)
    shapes.check_disentangled(q, *tables)
    span = tables[0].shape[1] // 2
    signed = apart, -apart if paper_sign else apart
    keys, queries = (
        np.moveaxis(table[:, table_rows(distance, span, max_distance)], 0, -4)
        for table, distance in zip(tables, signed, strict=True)
    )
    from_content = np.einsum("...hid,...hijd->...hij", q, keys)
    to_content = np.einsum("...hjd,...hijd->...hij", repeated(k, q.shape[-3]), queries)
    return default_scale(q, scale) * (from_content + to_content)


def table_rows(distances: "Int[Array, '*b']", span, max_distance=None) -> "Int[Array, '*b']":
    """Return the row of each distance in a table of 2 · span rows."""
    shapes.check_log_buckets(span, max_distance)
    if max_distance is not None:
        distances = log_buckets(distances, span, max_distance)
    return np.clip(distances + span, 0, 2 * span - 1)


def log_buckets(distances: "Int[Array, '*b']", span, max_distance) -> "Int[Array, '*b']":
    """Return distances up to span/2 as they are and larger ones on a logarithmic scale, signs kept.

    The rule of the second version's code (DeBERTa-v2); `max_distance` − 1 becomes span − 1.
    """
    middle = span // 2
    far = np.maximum(np.abs(distances), middle)
    growth = np.log(far / middle) / math.log((max_distance - 1) / middle) * (middle - 1)
    return np.where(np.abs(distances) <= middle, distances, np.sign(distances) * (middle + np.ceil(growth).astype(int)))
