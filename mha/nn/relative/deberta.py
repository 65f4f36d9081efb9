"""Relative positions and contents asked by each other: disentangled attention (He et al. 2021)."""

import math

import torch
from einops import einsum, rearrange
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import wide
from mha.nn.modes import own_precision
from mha.nn.relative.pairs import distances, pick
from mha.nn.strips import linear_of_heads, shallow_copy

__all__ = ["DisentangledBias", "disentangled_bias"]


def disentangled_bias(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    position_keys: "Float[Tensor, 'h r d']",
    position_queries: "Float[Tensor, 'h r d']",
    q_positions: "Int[Tensor, '*b i']",
    k_positions: "Int[Tensor, '*b j']",
    *,
    max_distance=None,
    paper_sign=False,
    scale=None,
) -> "Float[Tensor, '*b h i j']":
    """Return scale · (content to position + position to content): q_i and k_j against the rows of their distance.

    The tables have 2s rows a head, for the distances −s to s − 1, query minus key; with `max_distance` far ones share
    rows, as in DeBERTa-v2. Both terms read the row of i − j, as the released code and its checkpoints do; with
    `paper_sign` the second reads that of j − i, as the paper says. The scale is 1/√d unless given; that of the paper
    is 1/√(3d), for three terms: give it to q·k too. In at least float32, as scores are.
    """
    checks.tensors(q=q, k=k, position_keys=position_keys, position_queries=position_queries)
    apart = -distances(q_positions, k_positions)
    shapes.check_contents(q_positions, k_positions, q, k)
    shapes.check_disentangled(q, position_keys, position_queries)
    shapes.check_groups(q.shape[-3], k.shape[-3])
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    span = position_keys.shape[1] // 2
    rows = table_rows(apart, span, max_distance)
    opposite = table_rows(-apart, span, max_distance) if paper_sign else rows
    q, k, position_keys, position_queries = map(wide, (q, k, position_keys, position_queries))
    by_group = rearrange(position_queries, "(g r) s d -> g r s d", g=k.shape[-3])
    with own_precision(q):
        from_content = pick(scale * q @ position_keys.mT, rows)
        asked = einsum(scale * k, by_group, "... g j d, g r s d -> ... g r j s").flatten(-4, -3)
    return from_content + pick(asked, opposite.mT).mT


def table_rows(distances: "Int[Tensor, '*b']", span, max_distance=None) -> "Int[Tensor, '*b']":
    """Return the row of each distance in a table of 2 · span rows."""
    shapes.check_log_buckets(span, max_distance)
    if max_distance is not None:
        different = torch.arange(-max_distance, max_distance + 1, device=distances.device)
        buckets = log_buckets(different, span, max_distance)
        distances = buckets[distances.clamp(-max_distance, max_distance) + max_distance]
    return (distances + span).clamp(0, 2 * span - 1)


def log_buckets(distances: "Int[Tensor, '*b']", span, max_distance) -> "Int[Tensor, '*b']":
    """Return distances up to span/2 as they are and larger ones on a logarithmic scale, signs kept.

    The rule of the second version's code (DeBERTa-v2); `max_distance` − 1 becomes span − 1.
    """
    middle = span // 2
    far = distances.abs().clamp(min=middle)
    growth = (far.double() / middle).log() / math.log((max_distance - 1) / middle) * (middle - 1)
    return torch.where(distances.abs() <= middle, distances, distances.sign() * (middle + growth.ceil().long()))


class DisentangledBias(nn.Module):
    """A position scheme for `MultiHeadAttention(position=..., scale=scheme.scale)`, as in DeBERTa.

    `weight` is a table (2 · span, d_model) of distances; `k_proj` and `q_proj` make of its rows what a query looks for
    and what a key is looked for by, in each head. Far distances share rows with `max_distance`. The layers of DeBERTa
    share the table: `other.weight = first.weight`. In its third version they are the layer's own projections:
    `scheme.q_proj, scheme.k_proj = layer.q_proj, layer.k_proj`.
    """

    def __init__(
        self, d_model, num_heads, *, span, d_head=None, max_distance=None, paper_sign=False, device=None, dtype=None
    ):
        super().__init__()
        shapes.check_log_buckets(count("span", span, least=1), max_distance)
        count("num_heads", num_heads, least=1)
        if d_head is None:
            shapes.check_heads(d_model, num_heads)
        d_head = d_model // num_heads if d_head is None else count("d_head", d_head, least=1)
        self.num_heads, self.max_distance, self.paper_sign = num_heads, max_distance, paper_sign
        self.scale = (3 * d_head) ** -0.5
        options = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(2 * span, count("d_model", d_model, least=1), **options))
        self.q_proj, self.k_proj = (nn.Linear(d_model, num_heads * d_head, **options) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw table and projections by Glorot's rule, and set biases to zero."""
        nn.init.xavier_uniform_(self.weight)
        for linear in (self.q_proj, self.k_proj):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def of_heads(self, heads):
        """Return the scheme of these heads alone, with projections of its own and the same table."""
        made, width = shallow_copy(self), self.q_proj.out_features // self.num_heads
        made.num_heads = len(heads)
        made.q_proj, made.k_proj = (linear_of_heads(part, heads, width) for part in (self.q_proj, self.k_proj))
        return made

    def content_bias(self, q, k, q_positions, k_positions, scale=None):
        """Return what the scheme adds to the scores of q and k: `disentangled_bias`."""
        keys, queries = (
            rearrange(linear(self.weight), "r (h d) -> h r d", h=self.num_heads)
            for linear in (self.k_proj, self.q_proj)
        )
        options = {"max_distance": self.max_distance, "paper_sign": self.paper_sign}
        return disentangled_bias(q, k, keys, queries, q_positions, k_positions, **options, scale=scale)

    def extra_repr(self):
        span, options = len(self.weight) // 2, f"max_distance={self.max_distance}, paper_sign={self.paper_sign}"
        return f"{self.weight.shape[1]}, {self.num_heads}, span={span}, {options}"
