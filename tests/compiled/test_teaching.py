"""The teaching kernels compile for Ampere and Hopper, onto tensor cores and without spills."""

import pytest
import torch

from mha.kernels import teaching
from mha.kernels.ahead_of_time import compiling_for
from mha.kernels.teaching.backward import backward
from mha.kernels.teaching.forward import forward


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize(("d", "causal"), [(64, True), (128, False)])
def test_they_compile(architecture, d, causal):
    q, k, v = (torch.zeros(1, 2, 64, d, dtype=torch.bfloat16) for _ in range(3))
    options = {"causal": causal, "scale": d**-0.5}
    with compiling_for(architecture) as launches:
        out, lse = forward(q, k, v, **options)
        backward(q, k, v, out, lse, q, **options)
    assert [launch.kernel for launch in launches] == ["forward_kernel", "dkdv_kernel", "dq_kernel"]
    for launch in launches:
        assert launch.count("mma.sync") > 0
        assert (launch.spills, launch.stack) == (0, 0)
        assert launch.shared <= 101376  # of the smallest card that takes bfloat16


def test_a_processor_is_refused_where_the_interpreter_was_not_chosen():
    x = torch.zeros(2, 5, 16)
    with pytest.raises(ValueError, match="q is on the CPU"):
        teaching.attention(x, x, x)
