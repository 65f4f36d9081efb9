"""Attention whose cost is proportional to the length: linear attention, its descendants, and approximations."""

from mha.reference.linear.delta import chunked_delta_rule, delta_rule, parallel_delta_rule
from mha.reference.linear.gated import (
    chunked_gated_linear_attention,
    gated_linear_attention,
    parallel_gated_linear_attention,
)
from mha.reference.linear.recurrent import (
    chunked_linear_attention,
    linear_attention,
    linear_average,
    parallel_linear_attention,
    retention_log_decay,
)
from mha.reference.linear.ssd import selective_state_space

__all__ = [
    "chunked_delta_rule",
    "chunked_gated_linear_attention",
    "chunked_linear_attention",
    "delta_rule",
    "gated_linear_attention",
    "linear_attention",
    "linear_average",
    "parallel_delta_rule",
    "parallel_gated_linear_attention",
    "parallel_linear_attention",
    "retention_log_decay",
    "selective_state_space",
]
