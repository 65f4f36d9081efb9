"""Rotary positions against complex numbers, and what they promise: only distances matter."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha.reference import rotate


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotate_equals_a_complex_product(layout):
    x, positions = draw(0, 2, 3, 5, 14), np.array([0, 1, 7, 100, 1003])
    turns = np.exp(1j * positions[:, None] * 500.0 ** (-2 * np.arange(7) / 14))
    real, imaginary = (x[..., :7], x[..., 7:]) if layout == "half" else (x[..., ::2], x[..., 1::2])
    turned = (real + 1j * imaginary) * turns
    parts = [turned.real, turned.imag]
    expected = np.concatenate(parts, -1) if layout == "half" else np.stack(parts, -1).reshape(x.shape)
    atol = 8 * (1003 + 4) * rounding.EPS * np.abs(x).max()  # an angle of 1003 radians is rounded, then its sine
    assert_equal(rotate(x, positions, base=500.0, layout=layout), expected, atol=atol)


def test_only_the_distance_matters():
    q, k = draw(0, 1, 1, 1, 10), draw(1, 1, 1, 1, 10)
    near = (rotate(q, np.array([7])) * rotate(k, np.array([3]))).sum()
    far = (rotate(q, np.array([1007])) * rotate(k, np.array([1003]))).sum()
    atol = 8 * 1007 * rounding.EPS * np.linalg.norm(q) * np.linalg.norm(k)
    assert_equal(far, near, atol=atol)


def test_position_zero_and_length_zero():
    x = draw(0, 2, 3, 5, 4)
    assert_equal(rotate(x, np.zeros(5, int)), x)
    assert rotate(x[..., :0, :], np.zeros(0, int)).shape == (2, 3, 0, 4)


def test_positions_per_sample():
    x, positions = draw(0, 2, 3, 5, 4), np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    turned = rotate(x, positions)
    for b in range(2):
        assert_equal(turned[b], rotate(x[b], positions[b]))


@pytest.mark.parametrize(
    ("width", "n", "layout", "message"),
    [
        (5, 3, "half", r"\(1, 1, 3, 5\): expected .* even width"),
        (4, 2, "half", r"positions has shape \(2,\): expected \(3,\)"),
        (4, 3, "neox", "layout is 'neox': expected 'half'"),
    ],
)
def test_misfits_are_named(width, n, layout, message):
    with pytest.raises(ValueError, match=message):
        rotate(np.zeros((1, 1, 3, width)), np.arange(n), layout=layout)
