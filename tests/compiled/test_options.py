import pytest

from compiled.expected import assert_sound, cases, compiled

OPTIONS = cases("every_option", architectures=(80, 90)) + cases("forward_without_mask", "stats", architectures=(90,))
BIAS = cases("learned_bias", architectures=(75, 89, 100), widths=(64,))


@pytest.mark.parametrize(("call", "architecture", "width"), OPTIONS + BIAS)
def test_options(call, architecture, width):
    assert_sound(compiled(call, architecture, width), newest=False)
