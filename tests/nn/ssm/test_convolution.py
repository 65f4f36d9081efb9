"""`mha.nn.ssm.convolution` against the reference and torch's own convolution."""

import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import nn, reference


def draw(n, width=4):
    generator = torch.Generator().manual_seed(n)
    shapes = (2, 3, n), (3, width), (3,), (2, 3, width - 1)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 3, 11])
def test_equals_the_reference(n, width):
    x, weight, bias, state = draw(n, width)
    expected = reference.causal_convolution(x.numpy(), weight.numpy(), bias.numpy(), state=state.numpy())
    for one, two in zip(nn.causal_convolution(x, weight, bias, state=state), expected, strict=True):
        assert_equal(one, two, atol=1e-14)


def test_equals_the_convolution_of_torch():
    x, weight, bias, _ = draw(11)
    expected = torch.nn.functional.conv1d(x, weight[:, None], bias, padding=3, groups=3)[..., :11]
    assert_equal(nn.causal_convolution(x, weight, bias)[0], expected, atol=1e-13)
    assert (nn.causal_convolution(x, weight.flip(1), bias)[0] - expected).abs().max() > 0.1


def test_gradients():
    given = [x.requires_grad_() for x in draw(3)]
    assert gradcheck(lambda x, weight, bias, state: nn.causal_convolution(x, weight, bias, state=state), given)


def test_the_state_holds_no_more_than_itself():
    x, weight, _, _ = draw(100)
    state = nn.causal_convolution(x, weight)[1]
    assert state.untyped_storage().nbytes() == 2 * 3 * 3 * 8


def test_misfits_are_named():
    x, weight, bias, _ = draw(5)
    with pytest.raises(ValueError, match=r"weight has shape \(2, 4\): expected \(3, width\)"):
        nn.causal_convolution(x, weight[:2])
    with pytest.raises(ValueError, match=r"state has shape \(2, 3, 2\): expected \(2, 3, 3\)"):
        nn.causal_convolution(x, weight, bias, state=torch.zeros(2, 3, 2, dtype=torch.float64))
