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
from mha.nn.linear import (
    delta_rule,
    gated_linear_attention,
    linear_attention,
    linear_average,
    retention_log_decay,
    selective_state_space,
)
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
from mha.nn.relative import (
    Alibi,
    DisentangledBias,
    GridBias,
    RelativeBias,
    ShawBias,
    TransformerXLBias,
    alibi_bias,
    alibi_slopes,
    disentangled_bias,
    grid_bias,
    relative_bias,
    relative_buckets,
    shaw_bias,
    transformer_xl_bias,
)
from mha.nn.rotary import (
    Rotary,
    RotaryFrequencies,
    dynamic_factor,
    interleaved_order,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    rotate,
    rotate_by,
    yarn_frequencies,
    yarn_gain,
)
from mha.nn.row_stats import Stats, attention_stats
from mha.nn.sparse import LongformerAttention, WindowAttention, longformer_attention, window_attention, window_slots
from mha.nn.sparse.block_selection import BlockSelection, block_selection_attention, chosen_blocks, pooled_blocks
from mha.nn.sparse.routing import Routing, cluster_members, moved_centroids, routing_attention
from mha.nn.sparse.top_k import top_k_attention, top_keys

__all__ = [
    "AfterPosition",
    "Alibi",
    "BlockSelection",
    "Cache",
    "DisentangledBias",
    "GridBias",
    "LatentAttention",
    "LearnedGrid",
    "LearnedPositions",
    "LongformerAttention",
    "MultiHeadAttention",
    "RelativeBias",
    "Rotary",
    "RotaryFrequencies",
    "Routing",
    "ShawBias",
    "SinusoidalPositions",
    "Stats",
    "TransformerXLBias",
    "WindowAttention",
    "absorbed_attention",
    "alibi_bias",
    "alibi_slopes",
    "attention",
    "attention_stats",
    "attention_weights",
    "block_selection_attention",
    "cached_attention",
    "chosen_blocks",
    "cluster_members",
    "delta_rule",
    "disentangled_bias",
    "dynamic_factor",
    "gated_linear_attention",
    "grid_bias",
    "grid_positions",
    "interleaved_order",
    "interpolate_grid",
    "interpolated_frequencies",
    "join_heads",
    "latent_attention",
    "learned_positions",
    "linear_attention",
    "linear_average",
    "llama3_frequencies",
    "longformer_attention",
    "moved_centroids",
    "ntk_frequencies",
    "pooled_blocks",
    "relative_bias",
    "relative_buckets",
    "retention_log_decay",
    "rotary_frequencies",
    "rotate",
    "rotate_by",
    "routing_attention",
    "selective_state_space",
    "shaw_bias",
    "shift_matrix",
    "sinusoidal",
    "sinusoidal_2d",
    "split_heads",
    "to_onnx",
    "top_k_attention",
    "top_keys",
    "transformer_xl_bias",
    "window_attention",
    "window_slots",
    "with_pooled_heads",
    "yarn_frequencies",
    "yarn_gain",
]
