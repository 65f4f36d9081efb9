import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from compare import assert_equal
from mha.dropout import Dropout, uniform
from mha.kernels.language import kept, load_rows, tanh


@triton.jit
def tanh_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tanh(tl.load(x + at)))


@triton.jit
def kept_kernel(seed, out, first, p, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, kept(tl.load(seed), first + at.to(tl.int64), p).to(tl.int8))


@triton.jit
def rows_kernel(x, out, stride, n, WIDTH: tl.constexpr, ALL: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr):
    i, d = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    rows = load_rows(x, i, d, stride, n, WIDTH, WIDTH != 16, ALL, UNIT, WIDE)
    tl.store(out + i * 16 + d, rows)


def test_tanh_has_the_precision_of_float32_from_the_smallest_to_the_largest():
    x = torch.cat([torch.logspace(-30, 4, 507), torch.tensor([0.0, 0.624999, 0.625, 1e30, torch.inf])])
    x = torch.cat([x, -x])
    out = torch.empty_like(x)
    tanh_kernel[(1,)](x, out, N=1024)
    assert_equal(out.double(), torch.tanh(x.double()), rtol=2**-22, label="4 units of rounding")
    assert out.isfinite().all()


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 5])
def test_dropout_keeps_what_every_floor_keeps(seed):
    out = torch.empty(64, dtype=torch.int8)
    for p in (0.1, 0.75):
        kept_kernel[(1,)](torch.tensor([seed]), out, 0, p, N=64)
        assert_equal(out.bool(), Dropout(p, seed).kept((64,)))


def test_dropout_beyond_32_bits_of_pairs():
    out, first = torch.empty(64, dtype=torch.int8), 2**33 + 11
    kept_kernel[(1,)](torch.tensor([3]), out, first, 0.4, N=64)
    assert_equal(out.bool(), uniform(3, np.arange(first, first + 64)) > np.float32(0.4))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("width", "n", "unit"), [(16, 16, 1), (16, 11, 8), (13, 16, 8), (5, 3, 1)])
def test_rows_are_loaded_and_zero_beyond_their_ends(width, n, unit, wide):
    x, out = torch.randn(16, 24), torch.empty(16, 16)
    rows_kernel[(1,)](x, out, 24 // unit, n, WIDTH=width, ALL=n == 16, UNIT=unit, WIDE=wide)
    expected = torch.zeros(16, 16)
    expected[:n, :width] = x[:n, :width]
    assert_equal(out, expected)
