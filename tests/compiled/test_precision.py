"""Products of float32 are what was asked for: exact, or three of TF32; Triton's own default is a single one."""

import pytest
import torch

from mha import kernels
from mha.kernels.ahead_of_time import compiling_for

EXACT, TF32 = "fma.rn.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"


def launches(precision, *, backward):
    q, k, v = (torch.zeros(1, 1, 33, 16, requires_grad=backward) for _ in range(3))
    with compiling_for(80) as found:
        out = kernels.attention(q, k, v, precision=precision)
        if backward:
            torch.autograd.grad(out, (q, k, v), out)
    return [launch for launch in found if launch.kernel != "row_terms_kernel"]


@pytest.mark.parametrize("backward", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["forward", "backward"])
def test_ieee_has_no_tf32(backward):
    for launch in launches("ieee", backward=backward):
        assert "tf32" not in launch.ptx, launch.kernel
        assert EXACT in launch.ptx, launch.kernel


@pytest.mark.parametrize("backward", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["forward", "backward"])
def test_tf32x3_multiplies_three_times(backward):
    for launch in launches("tf32x3", backward=backward):
        products = launch.ptx.count(TF32)
        assert products > 0, launch.kernel
        assert products % 3 == 0, launch.kernel
