"""Relative positions as a slope: a score falls with the distance, in each head at its own rate (Press et al., 2022)."""

import numpy as np

from mha import shapes
from mha.integers import count
from mha.reference.relative.pairs import distances


def alibi_slopes(num_heads) -> "Float[Array, ' h']":
    """Return 2^(−8/h), 2^(−16/h), … 2^(−8) for a power of two of heads.

    Any other number has the slopes of the power below it, then every second one of the doubled power. That is the
    authors' code and what checkpoints use; the sentence of the paper, one geometric series for any h, is not.

    Book: {eq}`alibi-slopes`.
    """
    num_heads = count("num_heads", num_heads, least=1)
    power = 2 ** (num_heads.bit_length() - 1)
    between = np.arange(1, 2 * (num_heads - power), 2) / (2 * power)
    return 2.0 ** (-8 * np.concatenate([np.arange(1, power + 1) / power, between]))


def alibi_bias(
    slopes: "Float[Array, ' h']", q_positions: "Int[Array, '*b i']", k_positions: "Int[Array, '*b j']"
) -> "Float[Array, '*b h i j']":
    """Return −slope · abs(j − i) for each head.

    On the keys that a causal mask shows it is the paper's slope · (j − i); keys ahead are as far as those behind.

    Book: {eq}`alibi`.
    """
    slopes = shapes.float64("slopes", slopes)
    return -slopes[:, None, None] * np.abs(distances(q_positions, k_positions))[..., None, :, :]
