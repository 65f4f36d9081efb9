import pytest

from compiled.expected import assert_sound, cases, compiled


@pytest.mark.parametrize(("call", "architecture", "width"), cases("linear"))
def test_linear(call, architecture, width):
    assert_sound(compiled(call, architecture, width), newest=False)
