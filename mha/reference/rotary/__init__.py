"""Rotary positions: how pairs of coordinates turn, and how fast (Su et al., 2021)."""

from mha.reference.rotary.frequencies import (
    dynamic_factor,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    yarn_frequencies,
    yarn_gain,
)
from mha.reference.rotary.rotation import interleaved_order, rotary_score, rotate, rotate_by

__all__ = [
    "dynamic_factor",
    "interleaved_order",
    "interpolated_frequencies",
    "llama3_frequencies",
    "ntk_frequencies",
    "rotary_frequencies",
    "rotary_score",
    "rotate",
    "rotate_by",
    "yarn_frequencies",
    "yarn_gain",
]
