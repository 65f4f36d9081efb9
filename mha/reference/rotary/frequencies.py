"""How fast the pairs of a rotary head turn, in radians a position, and how to slow them down for longer texts.

`frequencies` are those of training, fastest first; `factor` says how many times longer the text is to be than the
`length` of training.
"""

import numpy as np

from mha import shapes


def rotary_frequencies(width, base=10000.0) -> "Float[Array, ' m']":
    """Return the frequencies base^(−2m/width) of the pairs m of so many coordinates."""
    shapes.check_turned(width, least=0)
    shapes.check_positive(base=base)
    return base ** (-2 * np.arange(width // 2) / max(width, 1))


def interpolated_frequencies(frequencies: "Float[Array, ' m']", factor) -> "Float[Array, ' m']":
    """Slow all pairs down alike, as if positions were divided by the factor (Chen et al., 2023).

    Book: {eq}`rotary-interpolated`
    """
    frequencies = shapes.float64("frequencies", frequencies)
    shapes.check_positive(factor=factor)
    return frequencies / factor


def ntk_frequencies(frequencies: "Float[Array, ' m']", factor) -> "Float[Array, ' m']":
    """Leave the fastest pair, slow the slowest by the factor and those between by powers of it ("NTK-aware").

    The same as a base that is factor^(d/(d−2)) times as large (bloc97, 2023; Peng et al., 2024).
    Book: {eq}`rotary-ntk`
    """
    frequencies = shapes.float64("frequencies", frequencies)
    shapes.check_positive(factor=factor)
    shapes.check_spectrum(frequencies)
    return frequencies * float(factor) ** -np.linspace(0.0, 1.0, len(frequencies))


def dynamic_factor(n, length, factor=1.0):
    """Return the factor for a text of n tokens that grows: 1 up to the length of training ("dynamic NTK").

    Keys that were turned by an earlier factor are no longer right: a cache has to hold them before they turn.
    """
    shapes.check_positive(length=length, factor=factor)
    return max(1.0, factor * n / length - (factor - 1.0))


def llama3_frequencies(
    frequencies: "Float[Array, ' m']", factor, length, *, slow=1.0, fast=4.0
) -> "Float[Array, ' m']":
    """Slow only the pairs that turn little in training: fully below `slow` turns, not at all above `fast`.

    Between them the share that is left as it was grows with the number of turns. With fast=32 this is the ramp of the
    paper on YaRN (Peng et al., 2024); Llama 3.1 takes 4.   Book: {eq}`rotary-parts`
    """
    frequencies = shapes.float64("frequencies", frequencies)
    shapes.check_positive(factor=factor, length=length)
    shapes.check_ramp(slow, fast)
    turns = length * frequencies / (2 * np.pi)
    left = np.clip((turns - slow) / (fast - slow), 0.0, 1.0)
    return frequencies * (left + (1.0 - left) / factor)


def yarn_frequencies(
    frequencies: "Float[Array, ' m']", factor, length, *, slow=1.0, fast=32.0, truncate=True
) -> "Float[Array, ' m']":
    """Slow the pairs down as the code of YaRN does (Peng et al., 2024): the ramp falls with the pair's number.

    It begins at the pair that turns `fast` times in training and ends at the one that turns `slow` times; `truncate`
    widens it to whole pairs, and gpt-oss does not. Attention needs `yarn_gain` too.
    """
    frequencies = shapes.float64("frequencies", frequencies)
    shapes.check_positive(factor=factor, length=length)
    shapes.check_ramp(slow, fast)
    shapes.check_spectrum(frequencies)
    last = len(frequencies) - 1
    step = np.log(frequencies[0] / frequencies[-1]) / last
    first, end = (np.log(frequencies[0] * length / (2 * np.pi * turns)) / step for turns in (fast, slow))
    if truncate:
        first, end = np.floor(first), np.ceil(end)
    first, end = max(first, 0.0), min(end, 2 * last + 1.0)  # 2 · last + 1: so in the code, though pairs end at last
    end = end if end != first else end + 0.001
    slowed = np.clip((np.arange(last + 1) - first) / (end - first), 0.0, 1.0)
    return frequencies * (1.0 - slowed + slowed / factor)


def yarn_gain(factor):
    """Return by how much YaRN stretches queries and keys, 0.1 ln(factor) + 1: scores grow by its square."""
    shapes.check_positive(factor=factor)
    return 0.1 * np.log(max(1.0, factor)) + 1.0
