"""Relative positions: what the distance between two positions adds to a score."""

from mha.nn.relative.alibi import Alibi, alibi_bias, alibi_slopes
from mha.nn.relative.deberta import DisentangledBias, disentangled_bias
from mha.nn.relative.shaw import ShawBias, shaw_bias
from mha.nn.relative.swin import GridBias, grid_bias
from mha.nn.relative.t5 import RelativeBias, relative_bias, relative_buckets
from mha.nn.relative.transformer_xl import TransformerXLBias, transformer_xl_bias

__all__ = [
    "Alibi",
    "DisentangledBias",
    "GridBias",
    "RelativeBias",
    "ShawBias",
    "TransformerXLBias",
    "alibi_bias",
    "alibi_slopes",
    "disentangled_bias",
    "grid_bias",
    "relative_bias",
    "relative_buckets",
    "shaw_bias",
    "transformer_xl_bias",
]
