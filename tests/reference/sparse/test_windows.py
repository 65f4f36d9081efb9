"""Windows of a grid: the cut against the grid, attention against the mask."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference

GRIDS = [(1, 1), (3, 5), (7, 4), (6, 6), (2, 9)]
CUTS = [(2, 0), (3, 1), (3, 2), ((2, 3), (1, 0)), ((1, 4), (0, 2))]
by_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)
by_cut = pytest.mark.parametrize(("window", "shift"), CUTS, ids=str)


def draw(grid, batch=(2,), widths=(5, 5, 7)):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((*batch, 3, grid[0] * grid[1], width)) for width in widths]


@by_grid
@by_cut
def test_every_patch_is_in_one_window(grid, window, shift):
    slots = reference.window_slots(grid, window, shift)
    assert_equal(np.sort(slots[slots >= 0]), np.arange(grid[0] * grid[1]))


def test_window_slots_of_a_small_grid():
    assert_equal(reference.window_slots((2, 4), 2), [[0, 1, 4, 5], [2, 3, 6, 7]])
    assert_equal(reference.window_slots((2, 4), 2, 1), [[5, 6, 1, 2], [7, 4, 3, 0]])
    assert_equal(reference.window_slots((1, 3), 2), [[0, 1, -1, -1], [2, -1, -1, -1]])


@by_grid
@by_cut
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_window_attention_is_attention_with_the_mask(grid, window, shift, batch):
    given = draw(grid, batch)
    found = reference.window_attention(*given, grid=grid, window=window, shift=shift, scale=0.4)
    mask = masks.shifted_window2d(grid, window, shift)
    assert_equal(found, reference.attention(*given, mask=mask, scale=0.4), atol=1e-13)


def test_the_bias_is_the_same_in_every_window():
    """Of two patches of one window, only the offset counts, as if each head had a table of offsets."""
    grid, window, shift = (6, 4), (3, 2), (1, 1)
    table = np.random.default_rng(1).standard_normal((3, 5, 3))  # (heads, rows apart, columns apart)

    def bias(columns, n):
        rows, across = np.divmod(np.arange(n), columns)
        down, right = rows[:, None] - rows, across[:, None] - across
        return np.where(abs(down) < 3, 1, 0) * np.where(abs(right) < 2, 1, 0) * table[:, down % 5 % 5, right % 3]

    given = draw(grid)
    found = reference.window_attention(*given, grid=grid, window=window, shift=shift, bias=bias(2, 6))
    mask = masks.shifted_window2d(grid, window, shift)
    assert_equal(found, reference.attention(*given, mask=mask, bias=bias(4, 24)), atol=1e-13)


def test_a_length_that_is_no_grid_is_refused():
    with pytest.raises(ValueError, match="q has length 15: expected 3 × 4 = 12, a row a patch"):
        reference.window_attention(*draw((3, 5)), grid=(3, 4), window=2)
