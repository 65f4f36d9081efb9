"""Positions of pairs: what a scheme adds wants one for each query and each key, on both floors."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import nn, reference
from nn.layers import draw

HEADS, N, WIDTH = 2, 3, 4


def terms(floor, q, k, *places):
    """Return a call of each function of contents on a floor."""
    tables = [draw(*shape) for shape in ((5, WIDTH), (HEADS, 6, WIDTH), (HEADS, WIDTH), (10, HEADS * WIDTH))]
    given = [x.numpy() if floor is reference else x for x in (q, k, *tables, *places)]
    q, k, vectors, table, u, w_r, *places = given
    return {
        "shaw": lambda: floor.shaw_bias(q, vectors, *places),
        "deberta": lambda: floor.disentangled_bias(q, k, table, table, *places),
        "transformer-xl": lambda: floor.transformer_xl_bias(q, k, u, u, w_r, *places),
    }


@pytest.mark.parametrize("floor", [reference, nn], ids=lambda floor: floor.__name__)
@pytest.mark.parametrize("name", ["shaw", "deberta", "transformer-xl"])
class TestContents:
    def test_a_position_for_each_row(self, name, floor):
        """Without the check, a query without a position was left out, and one key had the distance of all."""
        q, k = draw(1, HEADS, N, WIDTH), draw(1, HEADS, N, WIDTH, seed=1)
        for n in (1, 2, 4):
            with pytest.raises(ValueError, match=rf"q_positions has shape \({n},\): expected \(…, 3\), a position"):
                terms(floor, q, k, torch.arange(n), torch.arange(N))[name]()
            if name != "shaw":  # which meets no key
                with pytest.raises(ValueError, match=rf"k_positions has shape \({n},\): expected \(…, 3\)"):
                    terms(floor, q, k, torch.arange(N), torch.arange(n))[name]()

    def test_rows_that_do_not_meet(self, name, floor):
        q, k, places = draw(1, HEADS, N, WIDTH), draw(1, HEADS, N, WIDTH + 1), torch.arange(N)
        if name != "shaw":
            with pytest.raises(ValueError, match="k has width 5 and q has 4: expected one width"):
                terms(floor, q, k, places, places)[name]()
        with pytest.raises(ValueError, match=r"q has shape \(3, 4\): expected \(…, heads, length, width\)"):
            terms(floor, q[0, 0], q, places, places)[name]()


def test_kinds_of_positions():
    places, q = torch.arange(N), draw(1, HEADS, N, WIDTH)
    grid = lambda x: nn.grid_bias(draw(9, 2), x, x, window=(2, 2))  # noqa: E731
    calls = [nn.Alibi(HEADS).bias, lambda x, y: grid(x), lambda x, y: terms(nn, q, q, x, y)["transformer-xl"]()]
    for call in calls:
        expected = call(places, places)
        for dtype in (torch.uint8, torch.int16, torch.uint16, torch.uint64):
            assert_equal(call(places.to(dtype), places.to(dtype)), expected)
        for given in (places.double(), places.numpy(), places.tolist(), None):
            with pytest.raises(TypeError, match=r"q_positions (is a|has dtype) .*: expected .*integers"):
                call(given, given) if call is not calls[2] else nn.transformer_xl_bias(
                    q, q, q[0, :, 0], q[0, :, 0], draw(10, HEADS * WIDTH), given, given
                )
    for call in (calls[0], calls[1]):
        with pytest.raises(ValueError, match=r"q_positions has shape \(\): expected \(…, positions\)"):
            call(torch.tensor(1), torch.tensor(1))
    with pytest.raises(ValueError, match=r"q_positions has shape \(\): expected \(…, positions\)"):
        reference.alibi_bias(np.ones(2), np.int64(1), np.arange(N))
