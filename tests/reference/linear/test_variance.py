"""The variance of positive features against an integral, and against draws."""

import numpy as np
import pytest

from compare import assert_equal
from mha.reference import feature_variance, positive_features


def test_equals_an_integral():
    """Width 1, Gauss–Hermite quadrature: the mean of (e^(wq − q²/2) e^(wk − k²/2))² less the square of e^(qk)."""
    q, k = np.array([[0.3], [-1.1]]), np.array([[0.7], [0.2], [-0.4]])
    w, weight = np.polynomial.hermite_e.hermegauss(80)
    product = np.exp(w * q[:, None] - q[:, None] ** 2 / 2) * np.exp(w * k - k**2 / 2)
    second = (product**2 * weight).sum(-1) / np.sqrt(2 * np.pi)
    first = (product * weight).sum(-1) / np.sqrt(2 * np.pi)
    assert_equal(first, np.exp(q @ k.T), rtol=1e-12)
    assert_equal(feature_variance(q, k, 5), (second / first**2 - 1) / 5, rtol=1e-10)


def test_equals_draws():
    rng = np.random.default_rng(0)
    q, k = 0.3 * rng.standard_normal((2, 3, 4))
    found = np.zeros((3, 3))
    for _ in range(4000):
        draw = rng.standard_normal((7, 4))
        found += (positive_features(q, draw) @ positive_features(k, draw).T / np.exp(q @ k.T) - 1) ** 2 / 4000
    assert_equal(found, feature_variance(q, k, 7), rtol=0.15)  # 4000 draws: three standard deviations of a variance


def test_misfits_are_named():
    with pytest.raises(ValueError, match="num_features is 0: expected at least 1"):
        feature_variance(np.ones((1, 2)), np.ones((1, 2)), 0)
    with pytest.raises(TypeError, match="q has dtype int64"):
        feature_variance(np.ones((1, 2), int), np.ones((1, 2)), 3)
