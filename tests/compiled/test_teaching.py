"""The teaching kernels compile for every architecture; from Ampere on onto tensor cores and without spills."""

import pytest
import torch

from mha.kernels import teaching
from mha.kernels.ahead_of_time import compiling_for
from mha.kernels.teaching.backward import backward
from mha.kernels.teaching.forward import forward
from mha.kernels.tile_sizes import SHARED_MEMORY


@pytest.mark.parametrize(
    ("architecture", "d", "causal"),
    [
        (75, 64, True),
        (80, 64, True),
        (80, 128, False),
        (89, 64, True),
        (90, 64, True),
        (90, 128, False),
        (100, 64, True),
    ],
)
def test_they_compile(architecture, d, causal):
    dtype = torch.float16 if architecture < 80 else torch.bfloat16
    q, k, v = (torch.zeros(1, 2, 64, d, dtype=dtype) for _ in range(3))
    options = {"causal": causal, "scale": d**-0.5}
    with compiling_for(architecture) as launches:
        out, lse = forward(q, k, v, **options)
        backward(q, k, v, out, lse, q, **options)
    assert [launch.kernel for launch in launches] == ["forward_kernel", "dkdv_kernel", "dq_kernel"]
    for launch in launches:
        assert launch.shared <= SHARED_MEMORY[86 if architecture >= 80 else 75]  # of the smallest card
        if architecture >= 80:
            assert launch.count("mma.sync") + launch.count("tcgen05") > 0
            assert (launch.spills, launch.stack) == (0, 0)


def test_a_processor_is_refused_where_the_interpreter_was_not_chosen():
    x = torch.zeros(2, 5, 16)
    with pytest.raises(ValueError, match="q is on the CPU"):
        teaching.attention(x, x, x)
