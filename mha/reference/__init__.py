"""What attention means: NumPy, float64, in the order of the equations."""

from mha.options import hinted
from mha.reference import dot_product
from mha.reference.cache import Cache, cached_attention, gather_pages, paged_attention
from mha.reference.dot_product import Stats, log_sum_exp, softmax
from mha.reference.flash import Running, finish, flash_attention, flash_backward, online_softmax, rescaled, start
from mha.reference.gate import gated
from mha.reference.gradients import Gradients, attention_backward, softmax_backward, softmax_jacobian
from mha.reference.grouped import absorbed_attention, grouped_heads, latent_attention, pool_heads
from mha.reference.heads import head_contributions, head_outputs, join_heads, multi_head_attention, split_heads
from mha.reference.linear import (
    chunked_linear_attention,
    linear_attention,
    linear_average,
    parallel_linear_attention,
)
from mha.reference.merging import merge
from mha.reference.norm import rms_norm
from mha.reference.position import (
    grid_positions,
    interpolate_grid,
    learned_positions,
    shift_matrix,
    sinusoidal,
    sinusoidal_2d,
)
from mha.reference.precision import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FORMATS,
    Format,
    LossScale,
    loss_scaling,
    round_to,
    scaled_rounding,
    spacing,
)
from mha.reference.query_key_value import cross_attention, self_attention, soft_lookup
from mha.reference.relative import relative_bias, relative_buckets
from mha.reference.rotary import rotate
from mha.reference.rounded import Stages, rounded_attention

attention = hinted(dot_product.attention)
attention_stats = hinted(dot_product.attention_stats)
attention_weights = hinted(dot_product.attention_weights)

__all__ = [
    "BFLOAT16",
    "FLOAT8_E4M3",
    "FLOAT8_E5M2",
    "FLOAT16",
    "FLOAT32",
    "FORMATS",
    "Cache",
    "Format",
    "Gradients",
    "LossScale",
    "Running",
    "Stages",
    "Stats",
    "absorbed_attention",
    "attention",
    "attention_backward",
    "attention_stats",
    "attention_weights",
    "cached_attention",
    "chunked_linear_attention",
    "cross_attention",
    "finish",
    "flash_attention",
    "flash_backward",
    "gated",
    "gather_pages",
    "grid_positions",
    "grouped_heads",
    "head_contributions",
    "head_outputs",
    "interpolate_grid",
    "join_heads",
    "latent_attention",
    "learned_positions",
    "linear_attention",
    "linear_average",
    "log_sum_exp",
    "loss_scaling",
    "merge",
    "multi_head_attention",
    "online_softmax",
    "paged_attention",
    "parallel_linear_attention",
    "pool_heads",
    "relative_bias",
    "relative_buckets",
    "rescaled",
    "rms_norm",
    "rotate",
    "round_to",
    "rounded_attention",
    "scaled_rounding",
    "self_attention",
    "shift_matrix",
    "sinusoidal",
    "sinusoidal_2d",
    "soft_lookup",
    "softmax",
    "softmax_backward",
    "softmax_jacobian",
    "spacing",
    "split_heads",
    "start",
]
