"""What attention costs: a formula a function, in exact integers.

Counts are of one layer and of one sequence unless a function takes `num_layers` or `batch`. A multiplication with the
addition that follows it counts as two operations, and sizes in memory are bytes: `itemsize` bytes a number.
"""

from mha.cost.activations import composed_activations, fused_activations
from mha.cost.cache import kv_cache_bytes, latent_cache_bytes, linear_state_bytes
from mha.cost.flops import absorbed_flops, attention_flops, core_flops, latent_flops, linear_flops
from mha.cost.parameters import (
    attention_parameters,
    block_parameters,
    feed_forward_parameters,
    latent_parameters,
    transformer_parameters,
)
from mha.cost.peaks import composed_peak, fused_peak
from mha.cost.published import Machine, Model, published_machines, published_models
from mha.cost.roofline import arithmetic_intensity, attainable_flops, roofline_seconds
from mha.cost.sizes import Latent
from mha.cost.traffic import composed_traffic, flash_traffic, fused_traffic, tile_rows

__all__ = [
    "Latent",
    "Machine",
    "Model",
    "absorbed_flops",
    "arithmetic_intensity",
    "attainable_flops",
    "attention_flops",
    "attention_parameters",
    "block_parameters",
    "composed_activations",
    "composed_peak",
    "composed_traffic",
    "core_flops",
    "feed_forward_parameters",
    "flash_traffic",
    "fused_activations",
    "fused_peak",
    "fused_traffic",
    "kv_cache_bytes",
    "latent_cache_bytes",
    "latent_flops",
    "latent_parameters",
    "linear_flops",
    "linear_state_bytes",
    "published_machines",
    "published_models",
    "roofline_seconds",
    "tile_rows",
    "transformer_parameters",
]
