"""How fast the pairs of a rotary head turn, and how to slow them down for longer texts.

Same meaning as `mha.reference.rotary`; frequencies are tensors of float64, and `RotaryFrequencies` takes them.
"""

import math

import torch

from mha import shapes
from mha.nn import checks

__all__ = [
    "dynamic_factor",
    "interpolated_frequencies",
    "llama3_frequencies",
    "ntk_frequencies",
    "rotary_frequencies",
    "yarn_frequencies",
    "yarn_gain",
]


def rotary_frequencies(width, base=10000.0, *, device=None) -> "Float[Tensor, ' m']":
    """Return the frequencies base^(−2m/width) of the pairs m of so many coordinates, in radians a position."""
    shapes.check_turned(width, least=0)
    shapes.check_positive(base=base)
    return geometric(width, base, device)


def geometric(width, base, device) -> "Float[Tensor, ' m']":
    """Return `rotary_frequencies` of numbers that have been checked."""
    exponents = torch.arange(0, -width, -2, dtype=torch.float64, device=device) / width
    return base**exponents


def interpolated_frequencies(frequencies: "Float[Tensor, ' m']", factor) -> "Float[Tensor, ' m']":
    """Slow all pairs down alike, as if positions were divided by the factor (Chen et al., 2023)."""
    checks.tensors(frequencies=frequencies)
    shapes.check_positive(factor=factor)
    return frequencies / factor


def ntk_frequencies(frequencies: "Float[Tensor, ' m']", factor) -> "Float[Tensor, ' m']":
    """Leave the fastest pair, slow the slowest by the factor and those between by powers of it ("NTK-aware")."""
    checks.tensors(frequencies=frequencies)
    shapes.check_positive(factor=factor)
    shapes.check_spectrum(frequencies)
    return frequencies * float(factor) ** -torch.linspace(
        0.0, 1.0, len(frequencies), dtype=frequencies.dtype, device=frequencies.device
    )


def dynamic_factor(n, length, factor=1.0):
    """Return the factor for a text of n tokens that grows: 1 up to the length of training ("dynamic NTK")."""
    shapes.check_positive(length=length, factor=factor)
    return max(1.0, factor * n / length - (factor - 1.0))


def llama3_frequencies(
    frequencies: "Float[Tensor, ' m']", factor, length, *, slow=1.0, fast=4.0
) -> "Float[Tensor, ' m']":
    """Slow only the pairs that turn less than `fast` times in training, fully those below `slow` (Llama 3.1)."""
    checks.tensors(frequencies=frequencies)
    shapes.check_positive(factor=factor, length=length)
    shapes.check_ramp(slow, fast)
    left = ((length * frequencies / (2 * math.pi) - slow) / (fast - slow)).clamp(0.0, 1.0)
    return frequencies * (left + (1.0 - left) / factor)


def yarn_frequencies(
    frequencies: "Float[Tensor, ' m']", factor, length, *, slow=1.0, fast=32.0, truncate=True
) -> "Float[Tensor, ' m']":
    """Slow the pairs down as the code of YaRN does (Peng et al., 2024): the ramp falls with the pair's number."""
    checks.tensors(frequencies=frequencies)
    shapes.check_positive(factor=factor, length=length)
    shapes.check_ramp(slow, fast)
    shapes.check_spectrum(frequencies)
    fastest, slowest, last = float(frequencies[0]), float(frequencies[-1]), len(frequencies) - 1
    step = math.log(fastest / slowest) / last
    first, end = (math.log(fastest * length / (2 * math.pi * turns)) / step for turns in (fast, slow))
    if truncate:
        first, end = math.floor(first), math.ceil(end)
    first, end = max(first, 0.0), min(end, 2 * last + 1.0)
    end = end if end != first else end + 0.001
    slowed = ((torch.arange(last + 1).to(frequencies) - first) / (end - first)).clamp(0.0, 1.0)
    return frequencies * (1.0 - slowed + slowed / factor)


def yarn_gain(factor):
    """Return by how much YaRN stretches queries and keys, 0.1 ln(factor) + 1: scores grow by its square."""
    shapes.check_positive(factor=factor)
    return 0.1 * math.log(max(1.0, factor)) + 1.0
