"""A mask that looks up every pair in a table compiles without spills, forward and backward."""

import numpy as np
import pytest
import torch

from compiled.calls import tensors
from compiled.expected import assert_sound
from mha.kernels import sparse_attention
from mha.kernels.ahead_of_time import compiling_for


@pytest.mark.parametrize("width", [64, pytest.param(128, marks=pytest.mark.slow)])
@pytest.mark.parametrize("architecture", [80, 90])
def test_lists_of_blocks(architecture, width):
    learned = [x.requires_grad_() for x in tensors(architecture, width)]
    with compiling_for(architecture) as launches:
        out = sparse_attention(*learned, np.ones((5, 5), bool), size=64)
        torch.autograd.grad(out, learned, torch.zeros_like(out))
    assert_sound(launches, newest=False)
