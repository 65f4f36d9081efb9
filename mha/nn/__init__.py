"""The PyTorch floor: the functions of `mha.reference` on tensors, and Modules that own parameters and call them."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as missing:
    hint = "mha.nn needs torch: in a checkout, pip install '.[torch]'"
    raise ModuleNotFoundError(hint, name=missing.name) from None

from mha.nn.cache import Cache, cached_attention
from mha.nn.dot_product import attention, attention_weights
from mha.nn.grouped import LatentAttention, absorbed_attention, latent_attention, with_pooled_heads
from mha.nn.heads import MultiHeadAttention, join_heads, split_heads
from mha.nn.linear import linear_attention, linear_average
from mha.nn.norm import AfterPosition
from mha.nn.onnx import to_onnx
from mha.nn.position import (
    LearnedGrid,
    LearnedPositions,
    SinusoidalPositions,
    grid_positions,
    interpolate_grid,
    learned_positions,
    shift_matrix,
    sinusoidal,
    sinusoidal_2d,
)
from mha.nn.relative import RelativeBias, relative_buckets
from mha.nn.rotary import Rotary, RotaryFrequencies, rotate
from mha.nn.row_stats import Stats, attention_stats

__all__ = [
    "AfterPosition",
    "Cache",
    "LatentAttention",
    "LearnedGrid",
    "LearnedPositions",
    "MultiHeadAttention",
    "RelativeBias",
    "Rotary",
    "RotaryFrequencies",
    "SinusoidalPositions",
    "Stats",
    "absorbed_attention",
    "attention",
    "attention_stats",
    "attention_weights",
    "cached_attention",
    "grid_positions",
    "interpolate_grid",
    "join_heads",
    "latent_attention",
    "learned_positions",
    "linear_attention",
    "linear_average",
    "relative_buckets",
    "rotate",
    "shift_matrix",
    "sinusoidal",
    "sinusoidal_2d",
    "split_heads",
    "to_onnx",
    "with_pooled_heads",
]
