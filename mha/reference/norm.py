"""Norms: each vector brought to one size, alone, so that no token and no sample sees another."""

import numpy as np

from mha import shapes


def layer_norm(x: "Float[Array, '*b d']", gain=None, bias=None, *, eps=1e-5) -> "Float[Array, '*b d']":
    """Subtract from each vector its mean and divide it by its standard deviation, then scale and shift coordinates.

    (Ba et al., 2016). The variance is that of the d numbers themselves, without Bessel's correction; eps joins it.
    Book: {eq}`layer-norm`.
    """
    x = shapes.float64("x", x)
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    for name, row in {"gain": gain, "bias": bias}.items():
        if row is not None:
            shapes.check_shape(name, row, x.shape[-1:])
    scaled = normed if gain is None else normed * shapes.float64("gain", gain)
    return scaled if bias is None else scaled + shapes.float64("bias", bias)


def rms_norm(x: "Float[Array, '*b d']", gain=None, *, eps=1e-6) -> "Float[Array, '*b d']":
    """Divide each vector by the root of its mean square, then multiply each coordinate by its gain.

    A layer norm without the mean (Zhang and Sennrich, 2019).
    """
    x = shapes.float64("x", x)
    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    if gain is None:
        return normed
    shapes.check_shape("gain", gain, x.shape[-1:])
    return normed * shapes.float64("gain", gain)
