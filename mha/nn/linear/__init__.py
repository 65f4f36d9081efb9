"""Attention whose cost is proportional to the length: linear attention, its descendants, and approximations."""

from mha.nn.linear.recurrent import linear_attention, linear_average

__all__ = ["linear_attention", "linear_average"]
