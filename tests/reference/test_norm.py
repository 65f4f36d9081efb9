"""Norms by hand: vectors of one length, whatever their size."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.reference import layer_norm, rms_norm


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


X = np.random.default_rng(0).standard_normal((2, 5, 7))


def test_layer_norm_by_hand():
    """2, 4, 6, 12 has the mean 6 and the variance (16 + 4 + 0 + 36) / 4 = 14."""
    x = np.array([2.0, 4.0, 6.0, 12.0])
    assert_equal(layer_norm(x, eps=0.0), np.array([-4, -2, 0, 6]) / 14**0.5, rtol=1e-15)
    assert_equal(layer_norm(x, eps=2.0), np.array([-4, -2, 0, 6]) / 4, rtol=1e-15)
    gain, bias = np.array([1.0, 3.0, 5.0, 2.0]), np.array([0.5, 0.0, 7.0, 1.0])
    assert_equal(layer_norm(x, gain, bias, eps=2.0), [-0.5, -1.5, 7.0, 4.0], rtol=1e-15)


def test_layer_norm_is_torch_s():
    gain, bias = X[0, 0], X[1, 1]
    expected = torch.nn.functional.layer_norm(*map(torch.from_numpy, (X,)), (7,), *map(torch.from_numpy, (gain, bias)))
    assert_equal(layer_norm(X, gain, bias), expected, atol=1e-14)
    assert_equal(layer_norm(X.astype(np.float32)).dtype.itemsize, 8, label="computed in float64")


def test_layer_norm_does_not_see_a_shift_or_a_size():
    assert_equal(layer_norm(1000 * X + 3, eps=0.0), layer_norm(X, eps=0.0), atol=1e-11)
    assert_equal(layer_norm(np.full((1, 3), 5.0)), np.zeros((1, 3)), label="a constant row")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: layer_norm(X, np.ones(5)), ValueError, r"gain has shape \(5,\): expected \(7,\)"),
        (lambda: layer_norm(X, None, np.ones(5)), ValueError, r"bias has shape \(5,\): expected \(7,\)"),
        (lambda: layer_norm(X > 0), TypeError, "x has dtype bool: expected floating point"),
    ],
)
def test_bad_input_of_layer_norm_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
