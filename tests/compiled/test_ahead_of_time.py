import pytest
import torch
import triton
import triton.language as tl

from mha.kernels import runtime
from mha.kernels.ahead_of_time import compiling_for


@triton.jit
def product(x, y, out, stride, N: tl.constexpr, UNIT: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = i * (stride * UNIT) + j
    total = tl.zeros([N, N], tl.float32)
    for _ in range(4):
        total += tl.dot(tl.load(x + at), tl.load(y + at))
        x += N * stride * UNIT
        y += N * stride * UNIT
    tl.store(out + at, total)


def compiled(architecture, n=64, stride=64, unit=1, warps=4):
    x = torch.zeros(4 * n * stride * unit, dtype=torch.float16)
    out = torch.full((n * stride * unit,), torch.nan)
    with compiling_for(architecture) as launches:
        product[(1,)](x, x, out, stride, N=n, UNIT=unit, num_warps=warps, enable_fp_fusion=True)
    assert out.isnan().all(), "nothing runs"
    (launch,) = launches
    return launch


@pytest.mark.parametrize(("architecture", "instruction"), [(80, "mma.sync"), (90, "wgmma"), (100, "tcgen05")])
def test_the_instructions_of_each_architecture_are_counted(architecture, instruction):
    launch = compiled(architecture)
    found = {name for name in ("mma.sync", "wgmma", "tcgen05") if launch.count(name)}
    assert found == {instruction}
    assert (launch.kernel, launch.architecture, launch.warps) == ("product", architecture, 4)
    assert launch.constants["N"] == 64
    assert 0 < launch.registers < 255
    assert launch.shared >= 64 * 64 * 2
    assert (launch.spills, launch.stack) == (0, 0)


def test_turing_has_no_tensor_cores_in_this_triton():
    launch = compiled(75, n=16)
    assert not any(map(launch.count, ("mma.sync", "wgmma", "tcgen05")))


def test_a_tile_too_large_for_the_registers_is_seen_to_spill():
    launch = compiled(80, n=256, stride=256)
    assert launch.registers == 255
    assert launch.spills > 100
    assert launch.stack > 64


def test_a_stride_that_is_no_multiple_of_16_costs_the_wide_loads_unless_it_comes_in_units():
    narrow, wide = compiled(80, stride=72), compiled(80, stride=9, unit=8)
    assert narrow.count("cp.async 16") == 0
    assert narrow.count("ld 16-bit") > 0
    assert wide.count("cp.async 16") > 0
    assert wide.count("ld 16-bit") == 0
    assert wide.count("cp.async 16") == wide.count("cp.async")


def test_outside_nothing_is_pretended():
    with compiling_for(90):
        assert runtime.architecture(torch.device("cpu")) == 90
        runtime.check_device(q=torch.zeros(1))
    with pytest.raises(ValueError, match="q is on the CPU"):
        runtime.check_device(q=torch.zeros(1))
