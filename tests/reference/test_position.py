"""Absolute positions against complex numbers and by their laws: a shift is a turn, a product knows distances."""

import math

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha.reference import (
    grid_positions,
    interpolate_grid,
    learned_positions,
    rotate,
    shift_matrix,
    sinusoidal,
    sinusoidal_2d,
)
from mha.reference.position import cubic_weights

LAYOUTS = ["interleaved", "half"]
FAR = np.array([0, 1, 7, 100, -3, 1003])


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def angle_bound(distance):
    """Two evaluations of a sine of an angle up to `distance`: the angle and the power of the base are rounded."""
    return 8 * (distance + 1) * rounding.EPS


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [10000.0, 500, 3.7])
def test_sinusoids_equal_powers_of_a_complex_number(layout, base):
    d_model = 14
    encoding = sinusoidal(FAR, d_model, base=base, layout=layout)
    for row, p in zip(encoding, FAR, strict=True):
        for c in range(d_model // 2):
            turned = np.exp(1j * int(p) * base ** (-2 * c / d_model))
            columns = [c, c + d_model // 2] if layout == "half" else [2 * c, 2 * c + 1]
            assert_equal(row[columns], [turned.imag, turned.real], atol=angle_bound(1003), label=f"{p}, {c}")


def test_published_numbers():
    """Vaswani et al. (2017), section 3.5: even columns are sines, odd ones cosines, the first wavelength is 2π."""
    expected = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    assert_equal(sinusoidal(np.array([3]), 4)[0], expected, atol=1e-15)
    assert_equal(sinusoidal(np.array([3]), 4, layout="half")[0], np.array(expected)[[0, 2, 1, 3]], atol=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [10000.0, 500, 3.7])
def test_a_shift_is_one_rotation_for_all_positions(layout, base):
    options = {"base": base, "layout": layout}
    for distance in (0, 1, 5, -7, 1003):
        matrix = shift_matrix(distance, 14, **options)
        moved = sinusoidal(FAR + distance, 14, **options)
        assert_equal(sinusoidal(FAR, 14, **options) @ matrix, moved, atol=4 * angle_bound(2006))
        assert_equal(matrix @ matrix.T, np.eye(14), atol=4 * rounding.EPS, label="a rotation keeps lengths")
        assert_equal(matrix.T, shift_matrix(-distance, 14, **options), label="back is the inverse")
        assert_equal(
            np.linalg.matrix_power(shift_matrix(1, 14, **options), 3), shift_matrix(3, 14, **options), atol=1e-14
        )


def test_the_other_layout_or_base_is_no_rotation_of_these():
    moved = sinusoidal(FAR + 5, 14)
    for wrong in ({"layout": "half"}, {"base": 9000.0}):
        assert np.abs(sinusoidal(FAR, 14) @ shift_matrix(5, 14, **wrong) - moved).max() > 1e-3


def test_products_know_the_distance_alone():
    def product(p, r):
        return sinusoidal(np.array([p]), 14)[0] @ sinusoidal(np.array([r]), 14)[0]

    frequencies = 10000.0 ** (-np.arange(0, 14, 2) / 14)
    for distance in (0, 3, 100):
        expected = np.cos(distance * frequencies).sum()
        for p in (0, 17, 1003):
            assert_equal(product(p, p + distance), expected, atol=14 * angle_bound(1103))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_turn_by_rotary_is_the_transposed_shift(layout):
    """Rotary positions turn queries and keys by the same angles that move a sinusoid."""
    x = draw(0, 1, 1, 1, 14)
    turned = rotate(x, np.array([5]), base=500.0, layout=layout)
    assert_equal(turned[0, 0], x[0, 0] @ shift_matrix(5, 14, base=500.0, layout=layout).T, atol=1e-14)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 5), (2, 3, 5)], ids=str)
def test_positions_of_any_shape(shape):
    positions = np.random.default_rng(0).integers(-9, 99, shape)
    encoding = sinusoidal(np.asarray(positions), 6)
    assert encoding.shape == (*shape, 6)
    for index in np.ndindex(shape):
        assert_equal(encoding[index], sinusoidal(np.asarray(positions[index]), 6))


def test_unsigned_positions():
    assert_equal(sinusoidal(np.array([3, 200], np.uint8), 6), sinusoidal(np.array([3, 200]), 6))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_and_columns_side_by_side(layout):
    places = np.array([[[0, 0], [2, 5]], [[5, 2], [-1, 7]]])
    encoding = sinusoidal_2d(places, 12, base=500.0, layout=layout)
    for axis, half in enumerate(np.split(encoding, 2, -1)):
        assert_equal(half, sinusoidal(places[..., axis], 6, base=500.0, layout=layout))
    swapped = sinusoidal_2d(places[..., ::-1], 12, base=500.0, layout=layout)
    assert np.abs(encoding[0, 1] - swapped[0, 1]).max() > 0.1


def test_a_sum_of_one_table_for_both_axes_takes_a_place_for_its_mirror_image():
    rows, columns = grid_positions(5, 7).T
    summed = sinusoidal(rows, 12) + sinusoidal(columns, 12)
    assert_equal(summed[1 * 7 + 3], summed[3 * 7 + 1])
    beside = sinusoidal_2d(grid_positions(5, 7), 12)
    apart = np.linalg.norm(beside[:, None] - beside, axis=-1)
    assert apart[~np.eye(35, dtype=bool)].min() > 0.1


@pytest.mark.parametrize(("height", "width"), [(3, 5), (1, 1), (0, 5), (3, 0)])
def test_grid_goes_row_by_row(height, width):
    expected = [(row, column) for row in range(height) for column in range(width)]
    assert_equal(grid_positions(height, width), np.array(expected).reshape(-1, 2))


def test_a_learned_table_has_a_row_a_position():
    table, positions = draw(0, 7, 5), np.array([[0, 6, 3], [2, 2, 1]])
    assert_equal(learned_positions(table, positions), np.array([[table[p] for p in row] for row in positions]))
    assert learned_positions(table, positions[:, :0]).shape == (2, 0, 5)


def cubic_by_points(points, place):
    """Keys (1981), equation 3: the cubic through four neighbours, with the outermost points repeated."""
    left, total = math.floor(place), 0.0
    for index in range(left - 1, left + 3):
        x = abs(place - index)
        near, far = 1.25 * x**3 - 2.25 * x**2 + 1, -0.75 * x**3 + 3.75 * x**2 - 6 * x + 3
        total += (near if x <= 1 else far) * points[min(max(index, 0), len(points) - 1)]
    return total


@pytest.mark.parametrize(("size", "new_size"), [(7, 11), (7, 3), (2, 5), (1, 4), (5, 1), (4, 8)])
def test_interpolation_is_keys_cubic_along_both_axes(size, new_size):
    grid = draw(1, size, 3, 2)
    taller = interpolate_grid(grid, new_size, 3)
    for i in range(new_size):
        place = (i + 0.5) * size / new_size - 0.5
        for index in np.ndindex(3, 2):
            assert_equal(taller[i, *index], cubic_by_points(grid[:, *index], place), atol=1e-14)
    assert_equal(interpolate_grid(grid.swapaxes(0, 1), 3, new_size), taller.swapaxes(0, 1))


def test_interpolation_keeps_what_it_must():
    assert_equal(cubic_weights(7, 7), np.eye(7), label="the same size is the same grid")
    assert_equal(cubic_weights(7, 11).sum(1), np.ones(11), atol=64 * rounding.EPS, label="a constant stays")
    line = (cubic_weights(16, 32) @ np.arange(16.0) - ((np.arange(32) + 0.5) / 2 - 0.5))[4:-4]
    assert_equal(np.abs(line), np.full(24, 3 / 64), atol=1e-13, label="with a = −3/4 a straight line gets a wave")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sinusoidal(FAR, 7), ValueError, "d_model is 7: expected a multiple of 2"),
        (lambda: sinusoidal(FAR, 0), ValueError, "d_model is 0: expected a multiple of 2"),
        (lambda: sinusoidal(FAR, 6, layout="neox"), ValueError, "layout is 'neox': expected 'interleaved'"),
        (lambda: sinusoidal(FAR, 6, base=0), ValueError, "base is 0: expected a positive number"),
        (lambda: sinusoidal(FAR * 1.0, 6), TypeError, "positions has dtype float64: expected an array of integers"),
        (lambda: sinusoidal(FAR > 0, 6), TypeError, "positions has dtype bool"),
        (lambda: sinusoidal([1, 2], 6), TypeError, "positions is a list: expected an array of integers"),
        (lambda: shift_matrix(1, 7), ValueError, "d_model is 7"),
        (lambda: shift_matrix(0.5, 6), TypeError, "distance is 0.5: expected an integer"),
        (lambda: sinusoidal_2d(grid_positions(2, 3), 6), ValueError, "d_model is 6: expected a multiple of 4.*2 axes"),
        (
            lambda: sinusoidal_2d(FAR, 8),
            ValueError,
            r"positions has shape \(6,\): expected \(…, 2\), a row and a column",
        ),
        (lambda: learned_positions(draw(0, 7, 5), np.array([3, 7])), ValueError, "positions hold 7: expected 0 to 6"),
        (lambda: learned_positions(draw(0, 7, 5), np.array([-1, 3])), ValueError, "positions hold -1: expected 0 to 6"),
        (lambda: learned_positions(draw(0, 7), np.array([1])), ValueError, r"table has shape \(7,\)"),
        (lambda: interpolate_grid(draw(0, 3, 4), 5, 5), ValueError, r"grid has shape \(3, 4\): expected \(rows"),
        (lambda: interpolate_grid(draw(0, 3, 4, 2), 0, 5), ValueError, "height is 0: expected at least 1"),
        (lambda: grid_positions(2.0, 3), TypeError, "height is 2.0: expected an integer"),
    ],
)
def test_misfits_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
