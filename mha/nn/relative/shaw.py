"""Relative positions as vectors, one for each distance up to a limit (Shaw et al. 2018).

The vectors on the side of the keys: a bias on the scores, made of the query. A query meets the table once, and each
pair picks its product: no vector of a pair is ever made.
"""

import torch
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import wide
from mha.nn.modes import own_precision
from mha.nn.relative.pairs import distances, pick

__all__ = ["ShawBias", "shaw_bias"]


def shaw_bias(
    q: "Float[Tensor, '*b h i d']",
    table: "Float[Tensor, 'r d']",
    q_positions: "Int[Tensor, '*b i']",
    k_positions: "Int[Tensor, '*b j']",
    *,
    scale=None,
) -> "Float[Tensor, '*b h i j']":
    """Return scale · q·a, where a is the row of the table for the distance of the pair.

    The 2K + 1 rows are for the distances −K to K, key minus query, and the outermost for all beyond them too. The
    scale is 1/√d unless given. In at least float32, as scores are.
    """
    checks.tensors(q=q, table=table)
    apart = distances(q_positions, k_positions)
    shapes.check_contents(q_positions, k_positions, q)
    shapes.check_distances("table", table)
    shapes.check_shape("table", table, (len(table), q.shape[-1]))
    limit = len(table) // 2
    rows = apart.clamp(-limit, limit) + limit
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with own_precision(q):
        return pick(scale * wide(q) @ wide(table).mT, rows)


class ShawBias(nn.Module):
    """A position scheme for `MultiHeadAttention(position=...)`: each distance up to a limit is a vector to be found.

    `weight` is (2 · max_distance + 1, d_head), shared by all heads. Layers may share one.
    """

    def __init__(self, d_head, *, max_distance, device=None, dtype=None):
        super().__init__()
        shape = 2 * count("max_distance", max_distance, least=1) + 1, count("d_head", d_head, least=1)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the vectors by Glorot's rule."""
        nn.init.xavier_uniform_(self.weight)

    def of_heads(self, heads):
        """Return the scheme itself: its vectors are those of all heads."""
        return self

    def content_bias(self, q, k, q_positions, k_positions, scale=None):
        """Return what the distance of each pair adds to its score: `shaw_bias`."""
        return shaw_bias(q, self.weight, q_positions, k_positions, scale=scale)

    def extra_repr(self):
        return f"{self.weight.shape[1]}, max_distance={len(self.weight) // 2}"
