import pytest

from compiled.expected import assert_sound, assert_wide_loads, cases, compiled


@pytest.mark.parametrize(("call", "architecture", "width"), cases("forward", quick=(80, 90)))
def test_forward(call, architecture, width):
    assert_sound(compiled(call, architecture, width))


@pytest.mark.parametrize(("call", "architecture", "width"), cases("forward", widths=(40, 72, 88, 96, 120, 256)))
def test_widths_that_need_padding_and_the_widest(call, architecture, width):
    launches = compiled(call, architecture, width)
    assert_sound(launches, newest=False)
    if width < 256 and architecture >= 80:
        assert_wide_loads(*launches)
