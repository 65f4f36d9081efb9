"""Random matrices from integer seeds: the same numbers on every floor."""

import numpy as np

from mha.integers import count

__all__ = ["gaussian", "orthogonal_gaussian"]


def gaussian(seed, *shape):
    """Return independent draws of a standard normal distribution."""
    return np.random.default_rng(count("seed", seed)).standard_normal(shape)


def orthogonal_gaussian(seed, rows, width):
    """Return (rows, width) of which each block of `width` rows is orthogonal, while every row alone is Gaussian.

    Directions come from QR decompositions, lengths from other Gaussian rows (Yu et al. 2016). QR fixes the sign of a
    column by its first entries; undone by the signs of R, the directions are uniform.
    """
    rng = np.random.default_rng(count("seed", seed))
    blocks = -(-rows // width)
    q, r = np.linalg.qr(rng.standard_normal((blocks, width, width)))
    directions = np.swapaxes(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[:, None, :], -1, -2)
    lengths = np.linalg.norm(rng.standard_normal((blocks, width, width)), axis=-1)
    return (directions * lengths[..., None]).reshape(-1, width)[:rows]
