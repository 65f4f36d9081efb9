"""The cases themselves: named, explained, and sharp enough to tell right from wrong."""

import re

import numpy as np
import pytest

from mha.conformance import CASES, CONVENTIONS, FEATURES, GROUPS, Part, Refusal, Value
from mha.conformance.case import largest, same, tolerance
from mha.text import template

READ_OTHERWISE = [case for case in CASES.values() if getattr(case, "conventions", None)]
NUMBERS = [case for case in CASES.values() if isinstance(case, Value | Part) and np.size(case.expected)]


def test_there_are_enough_and_no_name_is_used_twice():
    assert len(CASES) == sum(map(len, GROUPS.values())) >= 60
    assert {case.kind for case in CASES.values()} == {"value", "gradient", "relation", "error"}


def test_every_case_has_a_rule_and_every_rule_a_case():
    assert template("conformance.rules").keys() == CASES.keys()
    assert template("conformance.groups").keys() == GROUPS.keys()
    assert template("conformance.conventions").keys() == CONVENTIONS
    assert [case.name for case in CASES.values() if not re.fullmatch(r"[^\n]+\.", case.rule)] == []


def test_a_report_is_a_number_in_a_repository():
    reports = [case.report for case in CASES.values() if case.report]
    assert [report for report in reports if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report)] == []
    assert len(set(reports)) >= 40


def test_needs_are_known_features():
    assert {need for case in CASES.values() for need in case.needs} <= FEATURES


def bound_of(case):
    """Return how far float32 may be off."""
    if isinstance(case, Part):
        return 128 * 2.0**-24
    return tolerance(2.0**-24, case.q, case.k, case.v, case.options)


@pytest.mark.parametrize("case", READ_OTHERWISE, ids=lambda case: case.name)
def test_a_convention_is_not_taken_for_the_rule(case):
    assert case.conventions.keys() <= CONVENTIONS
    bound = bound_of(case)
    expected = case.or_value if isinstance(case, Refusal) else case.expected
    others = [*case.conventions.values(), *([] if expected is None else [expected])]
    assert [1 for n, a in enumerate(others) for b in others[:n] if same(a, b, bound)] == []


@pytest.mark.parametrize(
    "case",
    NUMBERS,
    ids=lambda case: case.name,
)
def test_a_number_that_is_off_is_noticed(case):
    """In float64 and in float32 alike, by one part in a hundred, and at any place."""
    size = 1.0 if isinstance(case, Part) else max(1.0, largest(case.v))
    for place in np.ndindex(np.shape(case.expected)):
        wrong = np.array(case.expected, np.float64)
        wrong[place] = 7.0 if not np.isfinite(wrong[place]) else wrong[place] + 0.011 * size
        assert not same(wrong, case.expected, bound_of(case))
        if np.size(case.expected) > 100:
            break


def test_comparison():
    assert same([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0], 0.0)
    assert not same([np.nan], [0.0], 1.0)
    assert not same([np.inf], [-np.inf], 1.0)
    assert not same([1.0], [[1.0]], 1.0)
    assert same([1.0], [1.25], 0.25)
    assert not same([1.0], [1.5], 0.25)
