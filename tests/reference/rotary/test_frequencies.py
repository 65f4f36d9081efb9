"""How pairs are slowed down for long texts, against the formulas of the papers and the code of transformers."""

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.reference import (
    dynamic_factor,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    yarn_frequencies,
    yarn_gain,
)

FREQUENCIES = rotary_frequencies(26, 10000.0)
LENGTH = 997


def test_the_frequencies_of_a_base():
    assert_equal(rotary_frequencies(4, 100.0), [1.0, 0.1], rtol=1e-15)
    assert rotary_frequencies(0).shape == (0,)
    assert np.diff(FREQUENCIES).max() < 0


def test_interpolation_divides_positions():
    """Chen et al. 2023, equation 4: the position is scaled, and the function of it stays."""
    x, positions = np.random.default_rng(0).normal(size=(3, 5, 26)), np.arange(5)
    slowed = reference.rotate_by(x, 4 * positions, interpolated_frequencies(FREQUENCIES, 4.0))
    assert_equal(slowed, reference.rotate(x, positions), rtol=0, atol=1e-14)


def test_ntk_is_another_base():
    """bloc97 2023: base · factor^(d/(d−2)); the slowest pair is as slow as with interpolation."""
    slowed = ntk_frequencies(FREQUENCIES, 8.0)
    assert_equal(slowed, rotary_frequencies(26, 10000.0 * 8.0 ** (26 / 24)), rtol=1e-14)
    assert_equal(slowed[[0, -1]], [1.0, FREQUENCIES[-1] / 8.0], rtol=1e-15)


@pytest.mark.parametrize(("n", "factor", "expected"), [(5, 1.0, 1.0), (2 * LENGTH, 1.0, 2.0), (2 * LENGTH, 4.0, 5.0)])
def test_dynamic_factor(n, factor, expected):
    assert dynamic_factor(n, LENGTH, factor) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("fast", [4.0, 32.0])
def test_the_ramp_of_the_paper(fast):
    """Peng et al. 2024, equations 17, 18 and 20, pair by pair: r = L / λ turns in training."""
    slowed = llama3_frequencies(FREQUENCIES, 8.0, LENGTH, slow=1.0, fast=fast)
    for frequency, found in zip(FREQUENCIES, slowed, strict=True):
        r = LENGTH / (2 * np.pi / frequency)
        gamma = 0.0 if r < 1.0 else 1.0 if r > fast else (r - 1.0) / (fast - 1.0)
        assert_equal(found, (1 - gamma) * frequency / 8.0 + gamma * frequency, rtol=1e-14)
    assert (slowed == FREQUENCIES).any()
    assert np.isclose(slowed, FREQUENCIES / 8.0, rtol=1e-14).any()


def test_the_ramp_of_the_code_is_another():
    """Both leave the fast pairs and slow the slow ones; between, one counts turns and the other pairs."""
    paper = llama3_frequencies(FREQUENCIES, 8.0, LENGTH, slow=1.0, fast=32.0)
    code = yarn_frequencies(FREQUENCIES, 8.0, LENGTH, truncate=False)
    assert_equal(code[[0, -1]], paper[[0, -1]], rtol=1e-14)
    assert (code >= paper * (1 - 1e-14)).all(), "the logarithm is concave: more is left as it was"
    assert (code / paper).max() > 1.5


def test_factor_one_changes_nothing():
    for slowed in (
        interpolated_frequencies(FREQUENCIES, 1.0),
        ntk_frequencies(FREQUENCIES, 1.0),
        llama3_frequencies(FREQUENCIES, 1.0, LENGTH),
        yarn_frequencies(FREQUENCIES, 1.0, LENGTH),
    ):
        assert_equal(slowed, FREQUENCIES, rtol=1e-15)
    assert yarn_gain(1.0) == yarn_gain(0.5) == 1.0
    assert yarn_gain(np.e**2) == pytest.approx(1.2, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rotary_frequencies(5), "width is 5: expected an even number above 0$"),
        (lambda: rotary_frequencies(4, -1.0), "base is -1.0: expected a positive number"),
        (lambda: interpolated_frequencies(FREQUENCIES, 0.0), "factor is 0.0: expected a positive number"),
        (lambda: ntk_frequencies(FREQUENCIES[:1], 2.0), "from 1 to 1: expected at least two"),
        (lambda: ntk_frequencies(FREQUENCIES[::-1], 2.0), "expected at least two, the fastest first"),
        (lambda: llama3_frequencies(FREQUENCIES, 2.0, -3), "length is -3: expected a positive number"),
        (lambda: yarn_frequencies(FREQUENCIES, 2.0, 8, slow=9.0, fast=9.0), "slow is 9.0 and fast is 9.0"),
    ],
)
def test_misfits_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
