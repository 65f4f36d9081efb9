"""Triton's interpreter, corrected: bfloat16 as torch computes it."""

import numpy as np
import torch
import triton
import triton.language as tl

from compare import assert_equal
from mha.kernels import interpreter, runtime

ARITHMETIC = (torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.lt)


def draw(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(torch.bfloat16)


@triton.jit
def multiply(a, b, out, n: tl.constexpr):
    at = tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


def test_a_product_of_bfloat16_is_exact_in_float32():
    a, b = draw(16, 16), draw(16, 16, seed=1)
    out = torch.empty(16, 16)
    multiply[1,](a, b, out, 16)
    assert_equal(out, a.double() @ b.double(), atol=16 * 2**-24 * float(a.abs().max() * b.abs().max() * 16))


@triton.jit
def compute(a, b, out, is_less, n: tl.constexpr):
    at = tl.arange(0, n)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(out + at, x + y)
    tl.store(out + n + at, x - y)
    tl.store(out + 2 * n + at, x * y)
    tl.store(out + 3 * n + at, x / y)
    tl.store(out + 4 * n + at, tl.maximum(x, y))
    tl.store(is_less + at, x < y)


def test_arithmetic_of_bfloat16():
    a, b = draw(64), draw(64, seed=1)
    out, is_less = torch.empty(5, 64, dtype=torch.bfloat16), torch.empty(64, dtype=torch.bool)
    compute[1,](a, b, out, is_less, 64)
    for operator, actual in zip(ARITHMETIC, [*out, is_less], strict=True):
        assert_equal(actual, operator(a, b), label=operator.__name__)


@triton.jit
def convert(x, out, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


def converted(x, dtype):
    out = torch.empty(x.shape, dtype=dtype)
    convert[1,](x, out, x.numel())
    return out


def test_rounding_goes_to_the_nearest_and_from_the_middle_to_even():
    low, high = 1 + 2**-7, 1 + 2**-6
    middles = [1 + 2**-8, 1 + 3 * 2**-8]  # between 1 and low, between low and high
    beside = [np.nextafter(np.float32(x), np.float32(to)) for x in middles for to in (0, 2)]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -1e-40, 1e-45]
    x = torch.tensor([*middles, *beside, *special, low, high], dtype=torch.float32)
    assert_equal(converted(x, torch.bfloat16), x.to(torch.bfloat16))
    assert converted(x, torch.bfloat16)[:2].tolist() == [1.0, high]


def test_rounding_agrees_with_torch_for_many_numbers():
    x = draw(4096).float() * torch.linspace(0.5, 2, 4096)
    assert_equal(converted(x, torch.bfloat16), x.to(torch.bfloat16))


def test_other_types_convert_through_float32():
    x = torch.tensor([0.1, 1.00390625, -1000.0, 7.0])
    assert_equal(converted(x.half(), torch.bfloat16), x.half().to(torch.bfloat16))
    assert_equal(converted(x.bfloat16(), torch.float16), x.bfloat16().half())
    assert_equal(converted(x.bfloat16(), torch.float32), x.bfloat16().float())
    assert_equal(converted(torch.arange(512), torch.bfloat16), torch.arange(512).to(torch.bfloat16))


def test_infinities_multiply_without_a_warning():
    a, b = draw(16, 16), draw(16, 16, seed=1)
    a[0, 0], b[0], out = torch.inf, 0.0, torch.empty(16, 16)
    multiply[1,](a, b, out, 16)
    assert_equal(out.isnan(), (torch.arange(16) == 0)[:, None].expand(16, 16))


def test_a_second_install_changes_nothing():
    assert runtime.interpreted()
    before = interpreter.Builder.create_dot
    interpreter.install()
    assert interpreter.Builder.create_dot is before
