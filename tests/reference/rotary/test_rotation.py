"""Rotary positions against complex numbers, and what they promise: only distances matter."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha.reference import interleaved_order, rotary_frequencies, rotary_score, rotate, rotate_by


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


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_the_first_coordinates_turn_alone(layout):
    x, positions = draw(0, 2, 3, 5, 11), np.array([0, 1, 7, 100, 1003])
    turned = rotate(x, positions, base=500.0, layout=layout, width=6)
    assert_equal(turned[..., :6], rotate(x[..., :6], positions, base=500.0, layout=layout))
    assert_equal(turned[..., 6:], x[..., 6:])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_frequencies_and_a_gain(layout):
    x, positions, options = draw(0, 2, 3, 5, 11), np.arange(5), {"layout": layout, "width": 8}
    frequencies = rotary_frequencies(8, 500.0)
    turned = rotate(x, positions, base=500.0, **options)
    assert_equal(rotate_by(x, positions, frequencies, **options), turned)
    stretched = rotate_by(x, positions, frequencies, gain=1.5, **options)
    assert_equal(stretched[..., :8], 1.5 * turned[..., :8])
    assert_equal(stretched[..., 8:], x[..., 8:])


def test_only_the_distance_matters():
    q, k = draw(0, 1, 1, 1, 10), draw(1, 1, 1, 1, 10)
    near = (rotate(q, np.array([7])) * rotate(k, np.array([3]))).sum()
    far = (rotate(q, np.array([1007])) * rotate(k, np.array([1003]))).sum()
    atol = 8 * 1007 * rounding.EPS * np.linalg.norm(q) * np.linalg.norm(k)
    assert_equal(far, near, atol=atol)
    assert_equal(rotary_score(q.ravel(), k.ravel(), np.array([4, 0])), [near, (q * k).sum()], atol=atol)
    assert abs(rotary_score(q.ravel(), k.ravel(), np.array([-4]))[0] - near) > 0.1, "the side matters"


def test_the_two_layouts_differ_by_an_order_of_the_weights():
    """Su et al. pair neighbours; GPT-NeoX and Hugging Face pair the halves."""
    order = interleaved_order(3, 11, width=6)
    assert_equal(order[:11], [0, 3, 1, 4, 2, 5, 6, 7, 8, 9, 10])
    assert_equal(order[11:22], order[:11] + 11)
    assert_equal(order[np.argsort(order)], np.arange(33))
    heads, positions = draw(0, 3, 5, 11), np.arange(5) * 7
    joined = np.moveaxis(heads, 0, 1).reshape(5, 33)
    moved = np.moveaxis(joined[:, order].reshape(5, 3, 11), 1, 0)
    turned = rotate(heads, positions, layout="half", width=6)
    assert_equal(rotate(moved, positions, layout="interleaved", width=6), turned[..., order[:11]])
    assert np.abs(rotate(heads, positions, layout="interleaved", width=6) - turned).max() > 0.5


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
    ("d_head", "n", "options", "message"),
    [
        (5, 3, {}, r"\(1, 1, 3, 5\): expected .* even width"),
        (4, 2, {}, r"positions has shape \(2,\): expected \(3,\)"),
        (4, 3, {"layout": "neox"}, "layout is 'neox': expected 'half'"),
        (5, 3, {"width": 3}, "width is 3: expected an even number above 0 and at most 5, that of a head"),
        (5, 3, {"width": 6}, "width is 6: expected an even number above 0 and at most 5"),
        (5, 3, {"width": 0}, "width is 0: expected an even number"),
        (4, 3, {"base": 0.0}, "base is 0.0: expected a positive number"),
        (6, 3, {"frequencies": np.ones(2)}, "x has width 6: expected 4, a pair a frequency"),
        (6, 3, {"frequencies": np.ones(3), "width": 4}, "x has width 4: expected 6"),
        (4, 3, {"frequencies": np.ones(2), "gain": 0.0}, "gain is 0.0: expected a positive number"),
    ],
    ids=str,
)
def test_misfits_are_named(d_head, n, options, message):
    x, positions = np.zeros((1, 1, 3, d_head)), np.arange(n)
    with pytest.raises(ValueError, match=message):
        (rotate_by if "frequencies" in options else rotate)(x, positions, **options)


def test_what_has_no_pairs():
    with pytest.raises(ValueError, match="width is 5: expected an even number"):
        rotary_score(np.ones(5), np.ones(5), np.arange(3))
    with pytest.raises(ValueError, match=r"k has shape \(6,\): expected \(4,\)"):
        rotary_score(np.ones(4), np.ones(6), np.arange(3))
    with pytest.raises(ValueError, match="num_heads is 0: expected at least 1"):
        interleaved_order(0, 4)
