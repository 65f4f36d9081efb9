"""Random matrices: what they promise about rows, and that a seed is all they depend on."""

import numpy as np
import pytest

from compare import assert_equal
from mha.random_matrices import gaussian, orthogonal_gaussian


def test_blocks_are_orthogonal():
    directions = orthogonal_gaussian(3, 11, 5)
    assert directions.shape == (11, 5)
    for start in (0, 5, 10):
        block = directions[start : start + 5]
        products = block @ block.T
        assert_equal(products, np.diag(np.diagonal(products)), atol=1e-13)


def test_each_row_is_gaussian():
    """Mean 0 and variance 1 of each entry within 5 standard errors; and the squared length is of mean d."""
    draws = np.stack([orthogonal_gaussian(seed, 3, 3) for seed in range(4000)])
    assert_equal(draws.mean(0), np.zeros((3, 3)), atol=5 / 4000**0.5)
    assert_equal(draws.var(0), np.ones((3, 3)), atol=5 * (2 / 4000) ** 0.5)
    assert_equal((draws**2).sum(-1).mean(0), np.full(3, 3.0), atol=5 * (6 / 4000) ** 0.5)


def test_directions_of_qr_alone_are_not_uniform():
    """LAPACK leaves the first entry of a column with one sign: features of such directions would be biased."""
    raw = np.stack([np.linalg.qr(gaussian(seed, 3, 3))[0].T for seed in range(400)])
    assert (raw[:, 0, 0] < 0).all()
    ours = np.stack([orthogonal_gaussian(seed, 3, 3) for seed in range(400)])
    assert 0.4 < (ours[:, 0, 0] < 0).mean() < 0.6


def test_a_seed_is_all():
    assert_equal(gaussian(7, 2, 3), gaussian(7, 2, 3))
    assert (gaussian(7, 2, 3) != gaussian(8, 2, 3)).all()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    orthogonal_gaussian(1, 4, 4)
    assert_equal(np.random.get_state()[1], state)  # noqa: NPY002
    with pytest.raises(ValueError, match="seed is -1: expected at least 0"):
        gaussian(-1, 2)
