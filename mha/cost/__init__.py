"""What attention costs: a formula a function, in exact integers.

Counts are of one layer and of one sequence unless a function takes `num_layers` or `batch`. A multiplication with the
addition that follows it counts as two operations, and sizes in memory are bytes: `itemsize` bytes a number.
"""

from mha.cost.cache import kv_cache_bytes, latent_cache_bytes
from mha.cost.flops import absorbed_flops, attention_flops, core_flops, latent_flops
from mha.cost.parameters import attention_parameters, latent_parameters
from mha.cost.sizes import Latent

__all__ = [
    "Latent",
    "absorbed_flops",
    "attention_flops",
    "attention_parameters",
    "core_flops",
    "kv_cache_bytes",
    "latent_cache_bytes",
    "latent_flops",
    "latent_parameters",
]
