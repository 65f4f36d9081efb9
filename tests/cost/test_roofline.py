"""The roof: compute-bound above the ridge, bound by bandwidth below it."""

import pytest

from mha.cost import arithmetic_intensity, attainable_flops, roofline_seconds

MACHINE = {"peak": 300.0, "bandwidth": 20.0}  # its ridge lies at 15 operations a byte


def test_arithmetic_intensity_by_hand():
    assert arithmetic_intensity(30, 4) == 7.5
    assert arithmetic_intensity(0, 4) == 0
    assert arithmetic_intensity(2**80, 2**70) == 1024


@pytest.mark.parametrize(("intensity", "expected"), [(0, 0), (1, 20), (15, 300), (16, 300), (1e9, 300)])
def test_attainable_flops_is_the_lower_roof(intensity, expected):
    assert attainable_flops(intensity, **MACHINE) == expected


@pytest.mark.parametrize(("flops", "nbytes", "seconds"), [(600, 10, 2.0), (600, 80, 4.0), (600, 40, 2.0), (0, 0, 0)])
def test_roofline_seconds_is_the_slower_of_two(flops, nbytes, seconds):
    assert roofline_seconds(flops, nbytes, **MACHINE) == seconds
    if flops and nbytes:
        rate = attainable_flops(arithmetic_intensity(flops, nbytes), **MACHINE)
        assert flops / rate == pytest.approx(seconds, rel=1e-15)


def test_nonsense_is_named():
    with pytest.raises(ValueError, match="nbytes is 0: expected at least 1"):
        arithmetic_intensity(1, 0)
    with pytest.raises(ValueError, match="flops is -1: expected a number of at least 0"):
        arithmetic_intensity(-1, 1)
    with pytest.raises(ValueError, match="bandwidth is 0: expected a number above 0"):
        roofline_seconds(1, 1, peak=1, bandwidth=0)
    with pytest.raises(ValueError, match="intensity is nan: expected a number of at least 0"):
        attainable_flops(float("nan"), **MACHINE)
