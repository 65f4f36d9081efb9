import pytest

from compiled.expected import assert_sound, cases, compiled

DEVICES = 80, 90
OPTIONS = cases("forward_without_mask", "stats", "every_option", architectures=DEVICES)
BIAS = cases("learned_bias", architectures=(75, 89, 100), widths=(64,))


@pytest.mark.parametrize(("call", "architecture", "width"), OPTIONS + BIAS)
def test_options(call, architecture, width):
    assert_sound(compiled(call, architecture, width), newest=False)
