"""Predicted centres on tensors against the reference."""

import numpy as np
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import nn, reference
from nn.layers import draw

Q, W, V = draw(2, 4, 3), draw(3, 7, seed=1), draw(7, seed=2)


def test_equals_the_reference():
    for lengths in (11, np.array([11, 6])):
        expected = reference.predicted_centers(Q.numpy(), W.numpy(), V.numpy(), lengths)
        assert_equal(nn.predicted_centers(Q, W, V, torch.as_tensor(lengths)), expected, atol=1e-13)


def test_a_module_calls_the_function():
    module = nn.CenterPredictor(3, 7).double()
    given = module.proj.weight.T, module.combine.weight[0], 5
    assert_equal(module(Q, 5), nn.predicted_centers(Q, *given))
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * 7 + 7


def test_gradients():
    leaves = [x.clone().requires_grad_() for x in (Q, W, V)]
    assert gradcheck(lambda *given: nn.predicted_centers(*given, torch.tensor([11, 6])), leaves)
