"""Attention whose cost is proportional to the length: linear attention, its descendants, and approximations."""

from mha.reference.linear.recurrent import (
    chunked_linear_attention,
    linear_attention,
    linear_average,
    parallel_linear_attention,
)

__all__ = ["chunked_linear_attention", "linear_attention", "linear_average", "parallel_linear_attention"]
