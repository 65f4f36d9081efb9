"""`mha.nn.linear.linformer`: a Module whose projections learn."""

import pytest
import torch
from torch.autograd import gradcheck

from approximation_calls import draw, left_and_right, tensors
from compare import assert_equal
from mha import nn


def test_projections_learn():
    q, k, v = (x[..., :3] for x in tensors(*draw(4, heads=2, groups=1)))
    core = nn.Linformer(5, 3, dtype=torch.float64)

    def call(e, f):
        return torch.func.functional_call(core, {"e": e, "f": f}, (q, k, v))

    assert gradcheck(call, (core.e, core.f))
    core(q, k, v).sum().backward()
    assert (core.e.grad[:4] != 0).all()
    assert_equal(core.e.grad[4:], torch.zeros(1, 3))


def test_it_is_drawn_as_the_theorem_says():
    torch.manual_seed(0)
    core = nn.Linformer(400, 25)
    assert_equal(core.e.std(), torch.tensor(0.2), rtol=0.05)
    assert repr(core) == "Linformer(400, 25)"
    assert nn.MultiHeadAttention(8, 2, core=core).core is core  # and so its parameters are among the layer's


def test_rows_go_by_position():
    rows, core = draw(9), nn.Linformer(13, 4, dtype=torch.float64).requires_grad_(False)
    expected = core(*tensors(*rows))
    for wide, padding, where in left_and_right(rows, 4):
        assert_equal(core(*tensors(*wide), mask=padding)[..., where, :], expected, atol=1e-13)


def test_longer_inputs_are_refused():
    with pytest.raises(ValueError, match="k has length 14: expected at most 13"):
        nn.Linformer(13, 4)(*tensors(*draw(3, 14)))
