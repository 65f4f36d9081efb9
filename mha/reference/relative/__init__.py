"""Relative positions: what the distance between two positions adds to a score."""

from mha.reference.relative.alibi import alibi_bias, alibi_slopes
from mha.reference.relative.deberta import disentangled_bias
from mha.reference.relative.shaw import shaw_bias, shaw_values
from mha.reference.relative.swin import grid_bias
from mha.reference.relative.t5 import relative_bias, relative_buckets
from mha.reference.relative.transformer_xl import transformer_xl_bias

__all__ = [
    "alibi_bias",
    "alibi_slopes",
    "disentangled_bias",
    "grid_bias",
    "relative_bias",
    "relative_buckets",
    "shaw_bias",
    "shaw_values",
    "transformer_xl_bias",
]
