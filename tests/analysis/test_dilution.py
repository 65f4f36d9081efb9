"""Weights of one right key and of the luckiest of many, against softmax itself."""

import math

import numpy as np
import pytest

from compare import assert_equal
from mha.analysis.dilution import largest_weight, needle_margin, needle_weight
from mha.reference import softmax


@pytest.mark.parametrize("n", [1, 2, 7, 1009])
@pytest.mark.parametrize("margin", [-1.5, 0.0, 4.0])
def test_a_needle_among_equal_keys_has_its_share_of_the_softmax(n, margin):
    scores = np.zeros(n)
    scores[0] = margin
    assert_equal(needle_weight(n, margin), softmax(scores)[0], rtol=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.93])
@pytest.mark.parametrize(("n", "spread"), [(2, 0.0), (17, 1.0), (1013, 2.5)])
def test_the_margin_gives_the_share(n, share, spread):
    assert_equal(needle_weight(n, needle_margin(n, share, spread), spread), share, rtol=1e-12)


def test_half_of_the_weight_takes_the_logarithm_of_the_others():
    assert_equal(needle_margin(1025), math.log(1024), rtol=1e-15)


def test_noise_counts_as_its_mean_power():
    """The mean weight of a needle among draws; without the term for the spread it would be far off."""
    rng, n, margin, spread = np.random.default_rng(0), 4093, 8.0, 1.5
    scores = spread * rng.normal(size=(200, n))
    scores[:, 0] = margin
    found = softmax(scores)[:, 0].mean()
    assert_equal(needle_weight(n, margin, spread), found, rtol=0.03)
    assert abs(needle_weight(n, margin) / found - 1) > 0.5


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("n", [67, 1021])
def test_the_largest_of_random_weights(n, spread):
    """On both sides of √(2 ln n), near the median of 1,000 draws."""
    scores = spread * np.random.default_rng(1).normal(size=(1000, n))
    found = np.median(softmax(scores).max(-1))
    assert_equal(largest_weight(n, spread), found, rtol=0.12)
    if spread >= 2:
        annealed = needle_weight(n, spread * math.sqrt(2 * math.log(n)), spread)  # neither median nor cut
        assert abs(annealed / found - 1) > 0.12


def test_limits():
    assert largest_weight(1, 3.0) == needle_weight(1, -2.0) == 1
    assert_equal(largest_weight(113, 0.0), 1 / 113, rtol=1e-12)
    assert largest_weight(113, 12.0) > 0.75


def test_a_fixed_spread_is_diluted_and_a_spread_that_grows_is_not():
    lengths = [2**e for e in range(8, 21, 4)]
    fixed = [largest_weight(n, 2.0) for n in lengths]
    grown = [largest_weight(n, 2.0 * math.log(n) / math.log(lengths[0])) for n in lengths]
    assert fixed[-1] < 0.1 * fixed[0]
    assert grown[-1] > grown[0]


def test_the_widest_and_the_longest_are_weights():
    assert 0 < largest_weight(10**15, 30.0) <= 1
    assert 0 < largest_weight(2, 30.0) <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: needle_weight(0, 1.0), "n is 0: expected 1 to 10¹⁵ keys"),
        (lambda: largest_weight(10**17, 1.0), "n is 100000000000000000: expected 1 to 10¹⁵ keys"),
        (lambda: largest_weight(5, -1.0), "spread is -1.0: expected 0 to 30 nats"),
        (lambda: largest_weight(5, 38.0), "spread is 38.0: expected 0 to 30 nats"),
        (lambda: largest_weight(5, math.nan), "spread is nan"),
        (lambda: needle_margin(1), "n is 1: expected at least 2"),
        (lambda: needle_margin(5, share=1), "share is 1: expected a number between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_number_of_keys_is_an_integer():
    with pytest.raises(TypeError, match=r"n is 5\.0"):
        needle_weight(5.0, 1.0)


def test_margins_and_spreads_that_overflow_an_exponential():
    assert needle_weight(10, -1000.0) == needle_weight(10, 0.0, 100.0) == 0.0
    assert needle_weight(10, 1000.0) == needle_weight(1, -1000.0) == 1.0
