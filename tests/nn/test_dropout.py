"""`mha.nn.dropout`: the bits of the NumPy floor."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.dropout import Dropout
from mha.nn import attention
from mha.nn.dropout import factors


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**32 + 5, 2**63 - 1])
def test_bits_equal_numpy(seed):
    shape = torch.Size((2, 3, 5, 7))
    assert_equal(factors(Dropout(0.3, seed), shape, "cpu", torch.float64), Dropout(0.3, seed).factors(shape))


def test_about_p_are_dropped_and_the_mean_is_one():
    kept = factors(Dropout(0.3, 5), torch.Size((1000, 1000)), "cpu", torch.float64)
    five_sigma = 5 * np.sqrt(0.3 / 0.7) / 1000
    assert abs(float(kept.mean()) - 1) < five_sigma


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_the_dtype_of_a_seed_changes_nothing(dtype):
    shape = torch.Size((2, 3, 5, 7))
    found = factors(Dropout(0.5, torch.tensor(7, dtype=dtype)), shape, "cpu", torch.float64)
    assert_equal(found, Dropout(0.5, 7).factors(shape))


def test_a_numpy_seed():
    shape = torch.Size((2, 3, 5))
    found = factors(Dropout(0.5, np.int32(7)), shape, "cpu", torch.float64)
    assert_equal(found, Dropout(0.5, 7).factors(shape))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_takes_seconds():
    """Written out term by term, ten rounds of Philox would take it about twenty minutes."""
    q, k, v = (torch.randn(2, 3, n, 5, generator=torch.Generator().manual_seed(n)) for n in (7, 11, 11))
    options = {"dropout": Dropout(0.5, 3)}
    found = torch.compile(attention, fullgraph=True)(q, k, v, **options)
    assert_equal(found, attention(q, k, v, **options), rtol=1e-5, atol=1e-6)
