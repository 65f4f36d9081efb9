"""The norm that keeps queries and keys at one size, whatever the weights do (Zhang and Sennrich, 2019)."""

import numpy as np

from mha import shapes


def rms_norm(x: "Float[Array, '*b d']", gain=None, *, eps=1e-6) -> "Float[Array, '*b d']":
    """Divide each vector by the root of its mean square, then multiply each coordinate by its gain."""
    x = shapes.float64("x", x)
    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    if gain is None:
        return normed
    shapes.check_shape("gain", gain, x.shape[-1:])
    return normed * shapes.float64("gain", gain)
