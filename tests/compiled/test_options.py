import pytest

from compiled.expected import assert_sound, cases, compiled

DEVICES = 80, 90


@pytest.mark.parametrize(
    ("call", "architecture", "width"),
    cases("forward_without_mask", "stats", "every_option", architectures=DEVICES),
)
def test_options(call, architecture, width):
    assert_sound(compiled(call, architecture, width), newest=False)
