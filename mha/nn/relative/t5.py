"""Relative positions as a bias: one learned number a head for each bucket of distances (Raffel et al. 2020)."""

import math

import torch
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.relative.pairs import distances as distances_of
from mha.nn.relative.pairs import pick
from mha.nn.strips import of_heads, shallow_copy

__all__ = ["RelativeBias", "relative_bias", "relative_buckets"]


def relative_buckets(
    distances: "Int[Tensor, '*b']", *, num_buckets=32, max_distance=128, bidirectional=True
) -> "Int[Tensor, '*b']":
    """Return the bucket of each distance, position of the key minus position of the query.

    Half of the buckets hold one distance each; the others hold ranges that grow like powers, and the last holds all
    from `max_distance` on. With `bidirectional` half of all buckets are for keys ahead; without it, keys ahead share
    the bucket 0 with the key at the query itself.   Book: {eq}`relative-buckets`.
    """
    checks.integers("distances", distances)
    shapes.check_buckets(num_buckets, max_distance, bidirectional)
    distances = distances.long()
    ahead = num_buckets // 2 * (distances > 0) if bidirectional else 0
    far = distances.abs() if bidirectional else (-distances).clamp(min=0)
    size = num_buckets // 2 if bidirectional else num_buckets
    exact = size // 2
    growth = (far.clamp(min=exact).double() / exact).log() / math.log(max_distance / exact) * (size - exact)
    return ahead + torch.where(far < exact, far, (exact + growth.long()).clamp(max=size - 1))


def relative_bias(
    table: "Float[Tensor, 'buckets h']",
    q_positions: "Int[Tensor, '*b i']",
    k_positions: "Int[Tensor, '*b j']",
    *,
    max_distance=128,
    bidirectional=True,
) -> "Float[Tensor, '*b h i j']":
    """Return what each head adds to the score of each pair: the entry of its bucket, as `relative_buckets` has it."""
    checks.tensors(table=table)
    shapes.check_shape("table", table, (len(table), table.shape[-1]))
    shapes.check_buckets(len(table), max_distance, bidirectional)
    distances = distances_of(q_positions, k_positions)
    different = torch.arange(-max_distance, max_distance + 1, device=table.device)  # beyond, all are in the last bucket
    options = {"num_buckets": len(table), "max_distance": max_distance, "bidirectional": bidirectional}
    entries = table[relative_buckets(different, **options)].mT.unsqueeze(-2)
    rows = distances.clamp(-max_distance, max_distance) + max_distance
    return pick(entries.expand(-1, distances.shape[-2], -1), rows)


class RelativeBias(nn.Module):
    """A position scheme for `MultiHeadAttention(position=...)`, as in T5: scores gain by distance, head by head.

    Layers may share one. `weight` is (num_buckets, num_heads) and begins at zero.   Book: {eq}`relative-bias`.
    """

    def __init__(self, num_heads, *, num_buckets=32, max_distance=128, bidirectional=True, device=None, dtype=None):
        super().__init__()
        shapes.check_buckets(num_buckets, max_distance, bidirectional)
        self.num_heads = count("num_heads", num_heads, least=1)
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = nn.Parameter(torch.empty(num_buckets, self.num_heads, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weights to zero: at first no distance counts."""
        nn.init.zeros_(self.weight)

    def of_heads(self, heads):
        """Return the scheme of these heads alone, with a table of its own."""
        made = shallow_copy(self)
        made.num_heads, made.weight = len(heads), of_heads(self.weight, heads, dim=1)
        return made

    def bias(
        self, q_positions: "Int[Tensor, '*b i']", k_positions: "Int[Tensor, '*b j']"
    ) -> "Float[Tensor, '*b h i j']":
        """Return what each head adds to the score of each pair: `relative_bias`."""
        options = {"max_distance": self.max_distance, "bidirectional": self.bidirectional}
        return relative_bias(self.weight, q_positions, k_positions, **options)

    def extra_repr(self):
        num_buckets, num_heads = self.weight.shape
        options = f"max_distance={self.max_distance}, bidirectional={self.bidirectional}"
        return f"{num_heads}, num_buckets={num_buckets}, {options}"
