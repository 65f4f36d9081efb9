"""`mha.nn.ssm.weights` against the reference."""

import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from linear_calls import draw_space
from mha import nn, reference


@pytest.mark.parametrize("n", [0, 1, 13])
def test_equals_the_reference(n):
    (_, *given), _, _ = draw_space(n)
    assert_equal(
        nn.state_space_weights(*map(torch.from_numpy, given)), reference.state_space_weights(*given), atol=1e-12
    )
    decay = torch.from_numpy(given[0] * given[1][:, None])
    decay[..., n // 2 :][..., :1] = -torch.inf
    assert_equal(nn.decay_mask(decay), reference.decay_mask(decay.numpy()), atol=1e-12)


def test_sums_lose_no_digits_however_much_was_forgotten():
    decay = -20 * torch.rand(700, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    decay[::3] = -torch.inf
    decay = decay.float()
    assert_equal(nn.decay_mask(decay), nn.decay_mask(decay.double()).float(), rtol=3e-6, atol=1e-30)


def test_what_forgets_all_has_a_gradient():
    decay = torch.tensor([-0.5, -torch.inf, -0.25], requires_grad=True)
    nn.decay_mask(decay).sum().backward()
    assert_equal(decay.grad, torch.tensor([0.0, 0.0, torch.tensor(-0.25).exp()]), atol=1e-7)


def test_gradients():
    (_, *given), _, _ = draw_space(3, num_heads=2, num_groups=1, d=2)
    assert gradcheck(nn.state_space_weights, [torch.from_numpy(x).requires_grad_() for x in given])


def test_arrays_are_sent_to_the_reference():
    (_, *given), _, _ = draw_space(3)
    with pytest.raises(TypeError, match="dt is a NumPy array: expected a torch tensor"):
        nn.state_space_weights(*given)
