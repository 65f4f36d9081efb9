"""How uncertain the weights of random features are, in closed form."""

import numpy as np

from mha import shapes
from mha.integers import count

__all__ = ["feature_variance"]


def feature_variance(q: "Float[Array, '*b i d']", k: "Float[Array, '*b j d']", num_features: int):
    """Return Var[φ(q)·φ(k)] / e^(2 q·k) of each pair (…, i, j), for positive features of independent directions.

    Choromanski et al. (2021), lemma 2; orthogonal directions have less.   Book: {eq}`favor-variance`.
    """
    q, k = shapes.float64("q", q), shapes.float64("k", k)
    together = q[..., :, None, :] + k[..., None, :, :]
    return np.expm1((together**2).sum(-1)) / count("num_features", num_features, least=1)
