"""The residual of a stream: known where rows are one vector, opposite, or orthogonal."""

import numpy as np
import pytest

from compare import assert_equal
from mha.analysis.collapse import row_residual


def test_rows_that_are_one_vector():
    assert row_residual(np.tile([3.0, -2.0, 1.0], (7, 1))) < 1e-15


def test_rows_that_cancel():
    assert_equal(row_residual(np.array([[2.0, 1.0], [-2.0, -1.0]])), 1.0, rtol=1e-15)


@pytest.mark.parametrize("n", [2, 5, 11])
def test_orthogonal_rows_share_one_part_in_n(n):
    assert_equal(row_residual(np.eye(n)), np.sqrt(1 - 1 / n), rtol=1e-12)


def test_the_mean_is_the_best_shared_row():
    rng = np.random.default_rng(0)
    x = rng.normal(1, 1, (3, 7, 5))
    best = row_residual(x) * np.linalg.norm(x, axis=(-2, -1))
    for _ in range(20):
        other = x.mean(-2, keepdims=True) + 0.1 * rng.normal(size=(3, 1, 5))
        assert (np.linalg.norm(x - other, axis=(-2, -1)) > best).all()


def test_scale_does_not_count_and_zeros_do_not_differ():
    x = np.random.default_rng(1).normal(size=(4, 3))
    assert_equal(row_residual(1e-9 * x), row_residual(x), rtol=1e-9)
    assert row_residual(np.zeros((4, 3))) == 0
    assert row_residual(x[:1]) == 0


@pytest.mark.parametrize("shape", [(3,), (0, 3)])
def test_a_stream_has_rows(shape):
    with pytest.raises(ValueError, match="expected"):
        row_residual(np.ones(shape))
