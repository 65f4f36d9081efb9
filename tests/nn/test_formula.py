"""The softmax of the plain formulas: rows without a key, rows that are spoiled, and how it is found out which."""

import math

import pytest
import torch

from compare import assert_equal
from mha import reference
from mha.nn import formula

INF, NAN = math.inf, math.nan
ROW, OTHERS = 2, [0, 1, 3]
SPOILED = {  # what one row holds
    "nothing": [],
    "first key hidden": [(0, -INF)],
    "all hidden": [(slice(None), -INF)],
    "NaN": [(-1, NAN)],
    "infinite": [(-1, INF)],
    "hidden but for a NaN": [(slice(None), -INF), (-1, NAN)],
}
by_row = pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED)


def draw(n, spoiled, dtype=torch.float64):
    s = torch.randn(3, 4, n, generator=torch.Generator().manual_seed(0), dtype=dtype)
    for keys, score in spoiled:
        s[1, ROW, keys] = score
    return s


@by_row
@pytest.mark.parametrize("n", [1, 2, 7, 15, 16, 17, 67])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_row_is_the_references(n, spoiled, dtype):
    s = draw(n, spoiled, dtype)
    rtol = 16 * torch.finfo(dtype).eps  # a score less the largest is below 8, and half a unit of 8 is 4 eps; so twice
    assert_equal(formula.softmax(s), reference.softmax(s.double().numpy()), rtol=rtol)


@by_row
def test_the_other_rows_keep_their_bits(spoiled):
    s = draw(17, spoiled)
    assert_equal(formula.softmax(s)[1, OTHERS], formula.softmax(draw(17, []))[1, OTHERS])


@pytest.mark.parametrize("sinks", [None, torch.zeros(3).double()], ids=["no sinks", "sinks"])
def test_the_gradient_of_an_empty_row_is_zero(sinks):
    s = draw(5, SPOILED["all hidden"]).requires_grad_()
    (gradient,) = torch.autograd.grad(formula.softmax(s, sinks).square().sum(), s)
    assert_equal(gradient[1, ROW], torch.zeros(5))
    assert bool(gradient.isfinite().all())


@by_row
def test_a_transform_that_may_not_look_gives_the_same(spoiled):
    s = draw(17, spoiled)
    assert_equal(torch.func.vmap(formula.softmax)(s), formula.softmax(s))


def test_without_a_key_there_is_nothing_to_weigh():
    assert formula.softmax(torch.ones(2, 3, 0)).shape == (2, 3, 0)
