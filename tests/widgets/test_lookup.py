"""The Lookup widget: JavaScript says what `mha.reference` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.widgets import Lookup

PLACES = [0.0, 3.5, 7.0, 11.0, 12.5]
VALUES = [-3.0, 7.25, 1.5, 13.0, 2.0]


def widget(**settings):
    return Lookup(PLACES, VALUES, **{"period": 13, "query": 5.25, "temperature": 0.3, **settings})


def cases():
    rng = np.random.default_rng(5)
    for _ in range(17):
        query, temperature = round(float(rng.uniform(0, 13)), 2), round(float(rng.uniform(0.02, 4)), 2)
        yield widget(query=query, temperature=temperature)
    yield Lookup([2.0], [5.0], period=7, query=3.0)


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget()], moves={"query": 9.0, "temperature": 1.7})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("lookup.js", "(x * a + y * b) / temperature", "(x * a + y * b) * temperature"), id="upside down"),
        pytest.param(("lookup.js", "(x * a + y * b) / temperature", "x * a + y * b"), id="no temperature"),
        pytest.param(("lookup.js", "weight * values[j]", "weight * places[j]"), id="keys mixed"),
        pytest.param(("common.js", "powers.map((x) => x / total)", "powers"), id="not normalised"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_numbers_are_those_of_the_lookup():
    found = widget().compute()
    angles = 2 * np.pi * np.array(PLACES) / 13
    scores = np.cos(angles - 2 * np.pi * 5.25 / 13) / 0.3
    assert_equal(found["weights"], reference.softmax(scores), rtol=1e-13)
    assert_equal(found["answer"], reference.softmax(scores) @ VALUES, rtol=1e-13)
    assert_equal(found["curve"][0], found["curve"][-1], rtol=1e-13, label="the circle closes")


def test_alt_says_settings_and_finding():
    assert Lookup([0, 6], [1, 3], period=12, query=6, temperature=0.02).alt() == (
        "A table of 2 entries on a circle, with values from 1.0 to 3.0. Asked at 6 with temperature 0.02, the table "
        "answers 3.0; no entry has more weight than the one at 6, 100 %."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query": 13.5}, "query is 13.5, expected a value from 0 to 13"),
        ({"temperature": 0.0}, "temperature is 0.0, expected a value from 0.02 to 4"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"period": 12}, "places is .* from 0 to below the period, 12"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(**settings)


@pytest.mark.parametrize(
    ("places", "values", "message"),
    [
        ([], [], "places is .*expected at least one"),
        ([1.0], [1.0, 2.0], r"values has shape \(2,\), expected \(1\)"),
        ([np.nan], [1.0], "places holds NaN"),
    ],
)
def test_wrong_tables_are_refused(places, values, message):
    with pytest.raises(ValueError, match=message):
        Lookup(places, values, period=7)
