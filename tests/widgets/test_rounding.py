"""The Rounding widget: JavaScript rounds as `mha.reference` does, and planted faults are seen."""

import numpy as np
import pytest

from mha.reference import FORMATS
from mha.widgets import Rounding
from mha.widgets.rounding import decimal


def cases():
    rng = np.random.default_rng(5)
    for format in range(len(FORMATS)):
        for exponent in (-30, -25, -17, -10, -7, 8, 15, 16, 20):
            yield Rounding(exponent=exponent, thousandths=int(rng.integers(1000)), format=format)
        for thousandths in (0, 500, 625, 750, 999):  # middles, and a fraction that carries into the exponent
            yield Rounding(exponent=int(rng.integers(-18, 17)), thousandths=thousandths, format=format)


MOVES = {"exponent": 3, "thousandths": 400, "format": 2}


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Rounding(exponent=-4, thousandths=600)], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("rounding.js", "low % 2 === 1", "true"), id="middles go up"),
        pytest.param(("rounding.js", "Math.max(exponent, 1 - bias(format))", "exponent"), id="no subnormal numbers"),
        pytest.param(("rounding.js", "(2 - 2 * last)", "(2 - last)"), id="a pattern too many"),
        pytest.param(("rounding.js", "? exponent + 1 : exponent", "? exponent : exponent"), id="carry forgotten"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


@pytest.mark.parametrize("format", range(len(FORMATS)))
def test_bits_are_those_of_the_number(format):
    """Read the pattern back by the definition of the format."""
    chosen = FORMATS[format]
    for shown in (
        Rounding(exponent=e, thousandths=t, format=format) for e in range(-30, 16, 3) for t in (0, 1, 600, 999)
    ):
        found = shown.compute()
        pattern, rounded = found["bits"], found["rounded"][format]
        assert len(pattern) == chosen.bits
        field = int(pattern[1 : 1 + chosen.exponent_bits], 2)
        fraction = int(pattern[1 + chosen.exponent_bits :], 2) / 2**chosen.fraction_bits
        if rounded is None:
            assert field == 2**chosen.exponent_bits - 1
        elif field:
            assert (1 + fraction) * 2.0 ** (field - chosen.bias) == rounded
        else:
            assert fraction * chosen.smallest_normal == rounded


def test_sentences():
    assert Rounding(exponent=-4, thousandths=600, format=4).sentence() == (
        "0.1 becomes 0.10156 in float8_e4m3fn: off by 1.5625 %."
    )
    assert Rounding(exponent=16, format=1).sentence() == "65536 becomes ∞ in float16, whose largest number is 65504."
    assert (
        Rounding(exponent=16, format=4).sentence() == "65536 becomes NaN in float8_e4m3fn, whose largest number is 448."
    )
    assert "its bits are 00111" in Rounding(format=3).alt()


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (0.0, "0"),
        (0.1, "0.1"),
        (448.0, "448"),
        (1e-7, "1 · 10⁻⁷"),
        (0.999996, "1"),
        (99999.6, "100000"),
        (2.0**20, "1048600"),
    ],
)
def test_decimal(x, written):
    assert decimal(x) == written


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"exponent": 21}, "exponent is 21, expected a value from -30 to 20"),
        ({"thousandths": 1000}, "thousandths is 1000, expected a value from 0 to 999"),
        ({"format": 5}, "format is 5, expected a value from 0 to 4"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Rounding(**settings)
