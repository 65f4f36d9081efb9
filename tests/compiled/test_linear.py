"""Linear attention compiles for every architecture, onto its own tensor cores, and loads 16 bytes at once."""

import pytest

from compiled.calls import tensors
from compiled.expected import assert_sound, assert_wide_loads, cases, compiled
from mha.kernels.ahead_of_time import compiling_for
from mha.kernels.linear import linear_attention


@pytest.mark.parametrize(("call", "architecture", "width"), cases("linear"))
def test_linear(call, architecture, width):
    assert_sound(compiled(call, architecture, width))


@pytest.mark.slow
@pytest.mark.parametrize("width", [72, 88, 120])
def test_loads_are_wide_where_a_stride_is_no_multiple_of_16(width):
    with compiling_for(80) as launches:
        linear_attention(*tensors(80, width, kv_heads=4))
    assert_sound(launches)
    for launch in launches:
        assert_wide_loads(launch)
