"""Spans are safe: no value of an operation lies outside, and what is said of all or of none is true."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import assert_equal
from mha.masks.spans import Span, Table, Truth

fuzz = settings(deadline=None, max_examples=60)
ends = st.tuples(st.integers(-40, 40), st.integers(0, 9)).map(lambda pair: (pair[0], pair[0] + pair[1]))
above_zero = st.tuples(st.integers(1, 20), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))
SUMS = [operator.add, operator.sub, operator.mul, operator.and_]
COMPARISONS = [operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne]


def span(pair):
    return Span(*(np.array(end) for end in pair))


def values(pair):
    return range(pair[0], pair[1] + 1)


@pytest.mark.parametrize("operation", [*SUMS, operator.floordiv, operator.mod])
@fuzz
@given(one=ends, two=ends, divisor=above_zero)
def test_no_value_lies_outside(operation, one, two, divisor):
    two = divisor if operation in (operator.floordiv, operator.mod) else two
    results = [operation(x, y) for x in values(one) for y in values(two)]
    found = operation(span(one), span(two))
    assert found.lo <= min(results)
    assert max(results) <= found.hi


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
@fuzz
@given(one=ends, number=st.integers(1, 20))
def test_with_a_number_the_ends_are_exact(operation, one, number):
    results = [operation(x, number) for x in values(one)]
    found = operation(span(one), number)
    if operation is not operator.mod or found.hi - found.lo < number - 1:
        assert (found.lo, found.hi) == (min(results), max(results))
    assert (-span(one)).lo == -one[1]
    assert (number - span(one)).hi == number - one[0]
    assert (number + span(one)).hi == number + one[1]
    assert (number * span(one)).hi == number * one[1]


@pytest.mark.parametrize("comparison", COMPARISONS)
@fuzz
@given(one=ends, two=ends)
def test_comparisons_are_exact(comparison, one, two):
    results = [comparison(x, y) for x in values(one) for y in values(two)]
    found = comparison(span(one), span(two))
    assert (bool(found.some), bool(found.all)) == (any(results), all(results))
    results, found = [comparison(x, two[0]) for x in values(one)], comparison(span(one), two[0])
    assert (bool(found.some), bool(found.all)) == (any(results), all(results))
    results, found = [comparison(two[0], x) for x in values(one)], comparison(two[0], span(one))
    assert (bool(found.some), bool(found.all)) == (any(results), all(results))


@fuzz
@given(ends)
def test_powers_of_two_are_known(pair):
    x = span(pair)
    power = (x > 0) & ((x & (x - 1)) == 0)
    results = [v > 0 and v & (v - 1) == 0 for v in values(pair)]
    assert bool(power.some) >= any(results)
    assert bool(power.all) <= all(results)
    if pair[0] > 0:
        assert bool(power.some) == any(results)


def test_truth():
    states = [Truth(*(np.array(x) for x in state)) for state in ((False, False), (True, False), (True, True))]
    for a in states:
        assert_equal([(~a).some, (~a).all], [not a.all, not a.some])
        for b in states:
            assert_equal([(a & b).some, (a & b).all], [a.some and b.some, a.all and b.all])
            assert_equal([(a | b).some, (a | b).all], [a.some or b.some, a.all or b.all])
        assert_equal([(True & a).some, (a & False).some, (False | a).all], [a.some, False, a.all])


@fuzz
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=40), st.data())
def test_a_table_knows_its_extremes(entries, data):
    where = st.integers(0, len(entries) - 1)
    pairs = data.draw(st.lists(st.tuples(where, where).map(sorted), min_size=1, max_size=9))
    lo, hi = np.array(pairs).T
    found = Table(np.array(entries))[Span(lo, hi)]
    assert_equal(found.lo, [min(entries[a : b + 1]) for a, b in pairs])
    assert_equal(found.hi, [max(entries[a : b + 1]) for a, b in pairs])
    truth = Table(np.array(entries) > 0)[Span(lo, hi)]
    assert_equal(truth.some, [max(entries[a : b + 1]) > 0 for a, b in pairs])
    assert_equal(truth.all, [min(entries[a : b + 1]) > 0 for a, b in pairs])


def test_a_span_may_leave_its_table():
    found = Table(np.array([3, 1, 2]))[Span(np.array([-5, 1]), np.array([0, 9]))]
    assert_equal(found.lo, [3, 1])
    assert_equal(found.hi, [3, 2])
