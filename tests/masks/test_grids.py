"""Masks over a picture, each against the picture."""

import itertools

import numpy as np
import pytest

from compare import assert_equal
from mha.masks import shifted_window2d, window2d

GRIDS = [(3, 5), (5, 3), (1, 7), (7, 1), (4, 4), (6, 4)]


def places(grid):
    return list(itertools.product(range(grid[0]), range(grid[1])))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("radius", [0, 1, (0, 2), (2, 1), 9], ids=str)
def test_a_window_holds_the_patches_around(grid, radius):
    down, across = radius if isinstance(radius, tuple) else (radius, radius)
    expected = [
        [row - down <= r <= row + down and column - across <= c <= column + across for r, c in places(grid)]
        for row, column in places(grid)
    ]
    n = len(expected)
    assert_equal(window2d(grid, radius).dense(n, n), np.array(expected))
    assert_equal(window2d(grid, radius).dense(1, n), np.array(expected)[-1:])


def cyclic(grid, window, shift):
    """Swin's way (Liu et al., 2021): pad, roll, cut into windows, mask what the roll brought together."""
    sides = [-(-side // size) * size for side, size in zip(grid, window, strict=True)]
    regions = np.zeros(sides, int)
    cuts = [
        [slice(0, side - size), slice(side - size, side - move), slice(side - move, side)] if move else [slice(0, side)]
        for side, size, move in zip(sides, window, shift, strict=True)
    ]
    for name, (rows, columns) in enumerate(itertools.product(*cuts)):
        regions[rows, columns] = name
    where = {}
    for row, column in places(grid):
        r, c = (row - shift[0]) % sides[0], (column - shift[1]) % sides[1]
        where[row, column] = r // window[0], c // window[1], regions[r, c]
    return np.array([[where[one] == where[two] for two in places(grid)] for one in places(grid)])


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize(("window", "shift"), [(2, 0), (2, 1), (3, 1), (3, 2), ((2, 3), (1, 0)), ((1, 4), (0, 2))])
def test_shifted_windows_are_those_of_the_cyclic_shift(grid, window, shift):
    pair = [x if isinstance(x, tuple) else (x, x) for x in (window, shift)]
    n = grid[0] * grid[1]
    assert_equal(shifted_window2d(grid, window, shift).dense(n, n), cyclic(grid, *pair))


def test_queries_before_the_picture_see_nothing():
    for mask in (window2d((2, 3), 5), shifted_window2d((2, 3), 4, 1), shifted_window2d((2, 3), 2)):
        assert not mask.dense(3, 6, q_start=-3).any(), mask


@pytest.mark.parametrize(
    ("mask", "pair", "text"),
    [
        (
            window2d((3, 4), 1),
            (5, 10),
            "i=5 may see j=10: window2d((3, 4), 1) (rows apart: 1 ≤ 1, columns apart: 1 ≤ 1)",
        ),
        (window2d((3, 4), (1, 2)), (0, 3), "i=0 may not see j=3: window2d((3, 4), (1, 2)) (columns apart: 3 > 2)"),
        (
            window2d((3, 4), 1),
            (0, 11),
            "i=0 may not see j=11: window2d((3, 4), 1) (rows apart: 2 > 1, columns apart: 3 > 1)",
        ),
        (
            shifted_window2d((4, 4), 2, 1),
            (5, 6),
            "i=5 may see j=6: shifted_window2d((4, 4), 2, 1) (both in window (1, 1))",
        ),
        (
            shifted_window2d((4, 4), 2),
            (5, 6),
            "i=5 may not see j=6: shifted_window2d((4, 4), 2, 0) (query in window (0, 0), key in window (0, 1))",
        ),
    ],
    ids=repr,
)
def test_explain(mask, pair, text):
    assert mask.explain(*pair) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: window2d(4, 1), TypeError, r"grid is 4: expected \(rows, columns\)"),
        (lambda: window2d((4, 0), 1), ValueError, r"grid\[1\] is 0: expected at least 1"),
        (lambda: window2d((4, 4, 4), 1), ValueError, r"grid has 3 entries: expected \(rows, columns\)"),
        (lambda: window2d((4, 4), -1), ValueError, "radius is -1: expected at least 0"),
        (lambda: window2d((4, 4), (1, 1.0)), TypeError, r"radius\[1\] is 1\.0: expected an integer"),
        (lambda: window2d((2, 2), 1).dense(4, 5), ValueError, "has 2 × 2 = 4 patches and there are 5 keys"),
        (lambda: window2d((2, 2), 1).dense(5, 4), ValueError, "has 2 × 2 = 4 patches and there are 5 queries"),
        (lambda: shifted_window2d((4, 4), 0), ValueError, "window is 0: expected at least 1"),
        (lambda: shifted_window2d((4, 4), 2, 2), ValueError, r"shift is \(2, 2\) and window is \(2, 2\)"),
        (lambda: shifted_window2d((4, 4), (2, 3), True), TypeError, "shift is True: expected an integer"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
