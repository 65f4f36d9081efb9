"""Rotary positions: how pairs of coordinates turn, and how fast (Su et al., 2021)."""

from mha.nn.rotary.frequencies import (
    dynamic_factor,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    yarn_frequencies,
    yarn_gain,
)
from mha.nn.rotary.rotation import Angles, Rotary, RotaryFrequencies, interleaved_order, rotate, rotate_by

__all__ = [
    "Angles",
    "Rotary",
    "RotaryFrequencies",
    "dynamic_factor",
    "interleaved_order",
    "interpolated_frequencies",
    "llama3_frequencies",
    "ntk_frequencies",
    "rotary_frequencies",
    "rotate",
    "rotate_by",
    "yarn_frequencies",
    "yarn_gain",
]
