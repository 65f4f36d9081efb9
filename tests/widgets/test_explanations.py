"""The Explanations widget: JavaScript says what the results say, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha.data import result
from mha.widgets import Explanations
from mha.widgets.explanations import METHODS


def cases():
    for number, method in enumerate(METHODS * 2):
        yield Explanations(sentence_number=number % 8, method=method)


def test_javascript_equals_the_results(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Explanations()], moves={"sentence_number": 3, "method": "leave_one_out"})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("row.slice(1).map(Math.abs)", "row.slice(1)"), id="sign of the strongest"),
        pytest.param(("row.slice(1).map(Math.abs)", "row.slice(0, -1).map(Math.abs)"), id="the start counted"),
        pytest.param(("[model][state.sentence_number]", "[1 - model][state.sentence_number]"), id="models swapped"),
        pytest.param(('  "rollout",\n  "flow",', '  "flow",\n  "rollout",'), id="methods swapped"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=("explanations.js", *fault))
    assert not passed
    assert "numbers" in log


def test_numbers_are_those_of_the_benchmark():
    shown = result("interpretability")["tokens"]["shown"]
    for method in METHODS:
        found = Explanations(sentence_number=2, method=method).compute()
        for model in ("trained", "shuffled"):
            scores = np.array(shown[model][method][2])
            assert_equal(found[model], scores / abs(scores).max(), atol=0.0051)
            assert max(map(abs, found[model])) == 1


def test_alt_says_the_strongest_word_and_all_scores():
    alt = Explanations(sentence_number=1, method="leave_one_out").alt()
    assert alt.startswith("“The ")
    assert "by leaving the word out: behind the start token, the strongest word is “" in alt
    assert "In the model with trained weights: <start> " in alt
    assert "In the model with shuffled weights: <start> " in alt


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sentence_number": 8}, "sentence_number is 8, expected a value from 0 to 7"),
        ({"method": "saliency"}, "method is 'saliency', expected one of last_layer, mean_map"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Explanations(**settings)
