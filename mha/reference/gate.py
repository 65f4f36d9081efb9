"""A gate on what the heads found: x decides how much of each number goes on (Qiu et al., 2025)."""

import numpy as np

from mha import shapes


def gated(joined: "Float[Array, '*b i e']", logits: "Float[Array, '*b i e']") -> "Float[Array, '*b i e']":
    """Multiply each number of the joined heads by the sigmoid of its logit."""
    joined, logits = shapes.float64("joined", joined), shapes.float64("logits", logits)
    shapes.check_shape("logits", logits, joined.shape)
    return joined * np.exp(-np.logaddexp(0, -logits))  # 1 / (1 + e^−z) without an overflow
