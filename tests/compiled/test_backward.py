import pytest

from compiled.expected import assert_sound, cases, compiled


@pytest.mark.parametrize(("call", "architecture", "width"), cases("backward", quick=(80,)))
def test_backward(call, architecture, width):
    launches = compiled(call, architecture, width)
    assert {"dkdv_kernel", "dq_kernel"} <= {launch.kernel for launch in launches}
    assert_sound(launches)
