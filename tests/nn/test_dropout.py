"""`mha.nn.dropout`: the bits of the NumPy floor."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.dropout import Dropout
from mha.nn.dropout import factors


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**32 + 5, 2**63 - 1])
def test_bits_equal_numpy(seed):
    shape = torch.Size((2, 3, 5, 7))
    assert_equal(factors(Dropout(0.3, seed), shape, "cpu", torch.float64), Dropout(0.3, seed).factors(shape))


def test_about_p_are_dropped_and_the_mean_is_one():
    kept = factors(Dropout(0.3, 5), torch.Size((1000, 1000)), "cpu", torch.float64)
    five_sigma = 5 * np.sqrt(0.3 / 0.7) / 1000
    assert abs(float(kept.mean()) - 1) < five_sigma
