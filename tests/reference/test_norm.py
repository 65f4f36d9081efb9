"""RMS norm by hand: vectors of one length, whatever their size."""

import numpy as np
import pytest

from compare import assert_equal
from mha.reference import rms_norm


def test_by_hand():
    assert_equal(rms_norm(np.array([3.0, 4.0]), eps=0.0), [3 / 12.5**0.5, 4 / 12.5**0.5], rtol=1e-15)
    assert_equal(rms_norm(np.array([2.0]), np.array([5.0]), eps=12.0), [2.5], rtol=1e-15)


def test_the_length_is_the_root_of_the_width_and_the_size_does_not_matter():
    x = np.random.default_rng(0).normal(size=(3, 5, 7))
    assert_equal((rms_norm(x, eps=0.0) ** 2).sum(-1), np.full((3, 5), 7.0), rtol=1e-14)
    assert_equal(rms_norm(1000 * x, eps=0.0), rms_norm(x, eps=0.0), rtol=1e-14)
    assert_equal(rms_norm(np.zeros(7)), np.zeros(7), label="eps keeps zero at zero")


def test_one_gain_a_coordinate():
    with pytest.raises(ValueError, match=r"gain has shape \(5,\): expected \(7,\)"):
        rms_norm(np.zeros((3, 7)), np.ones(5))
