"""Attention whose cost is proportional to the length: linear attention, its descendants, and approximations."""

from mha.nn.linear.delta import delta_rule
from mha.nn.linear.gated import gated_linear_attention
from mha.nn.linear.recurrent import linear_attention, linear_average, retention_log_decay
from mha.nn.linear.ssd import selective_state_space

__all__ = [
    "delta_rule",
    "gated_linear_attention",
    "linear_attention",
    "linear_average",
    "retention_log_decay",
    "selective_state_space",
]
