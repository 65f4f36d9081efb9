"""A few of the calls that `fuzz.py` draws; the script tries more."""

import pytest

from kernels import fuzz

FAST = 8


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < FAST else pytest.mark.slow) for n in range(12)])
def test_a_random_call(seed):
    fuzz.check_call(seed)
