"""Every option beside every other: output, statistics and gradients of a call for each pair of their values."""

import pytest

from kernels import options
from kernels.judge import check
from mha import kernels
from pairwise import pairwise

FAST = 30  # the first rows hold the most pairs
GRID = pairwise(options.FACTORS)
SINGLE = [row | {"mask": mask} | options.SMALL for row, mask in zip(GRID, options.OTHER_MASKS, strict=False)]


def _case(number, row):
    name = f"{number} {row['mask']}, {str(row['dtype']).removeprefix('torch.')}, {row['n_q']}x{row['n_k']}"
    return pytest.param(row, number, id=name, marks=[] if number < FAST else pytest.mark.slow)


@pytest.mark.parametrize(("row", "seed"), [_case(*numbered) for numbered in enumerate(GRID + SINGLE)])
def test_options_meet(row, seed):
    check(options.call_of(row, seed), kernels)


def test_no_mask_is_left_out():
    assert len(SINGLE) == len(options.OTHER_MASKS)
