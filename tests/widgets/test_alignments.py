"""The Alignments widget: JavaScript says what Python says, and planted faults are seen."""

import numpy as np
import pytest

from mha import reference
from mha.widgets import Alignments

SOURCE, WRITTEN = ["a", "b<i>", 'c"&', " ", "日本"], ["interrogation", "d'", "x"]
MOVES = {"model": 1, "step": 2}


def shares(seed, models=2, steps=3, places=5):
    return reference.softmax(np.random.default_rng(seed).normal(0, 2, (models, steps, places)))


def widget(seed=0, **settings):
    return Alignments(SOURCE, WRITTEN, shares(seed), ["additive", "dot"], **settings)


def cases():
    for seed in range(6):
        yield widget(seed, model=seed % 2, step=seed % 3)
    yield Alignments(["x"], ["y"], np.ones((1, 1, 1)), ["one"])
    yield Alignments(SOURCE, WRITTEN, np.full((2, 3, 5), 0.2), ["ties", "too"], step=1)
    letters = [str(i % 10) for i in range(37)]
    yield Alignments(letters, letters[:31], 0.9 * shares(7, 3, 31, 37), ["a", "b", "c"], model=2, step=30)


def test_javascript_equals_python(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget(1)], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("all[model]", "all[0]"), id="first model only"),
        pytest.param(("share >= tops[i] - SAME", "share >= tops[0] - SAME"), id="best of another step"),
        pytest.param(("sum(tops) / tops.length", "sum(tops)"), id="no mean"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=("alignments.js", *fault))
    assert not passed
    assert "numbers" in log


def test_it_says_where_a_step_looks():
    weights = np.array([[[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]]])
    said = Alignments("abc", "xy", weights, ["dot"], step=0).alt()
    assert said.startswith("A map of 2 steps over 3 places")
    assert "writes “x”. Its largest weight, 70 %, is on place 1, “b”" in said
    assert "the largest weight is 60 %" in said


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        (shares(0)[:, :2], {}, r"weights has shape \(2, 2, 5\), expected \(2, 3, 5\)"),
        (-shares(0), {}, "weights holds a negative number"),
        (2 * shares(0), {}, "sums to more than 1"),
        (shares(0), {"model": 2}, "model is 2, expected a value from 0 to 1"),
        (shares(0), {"step": 3}, "step is 3, expected a value from 0 to 2"),
    ],
)
def test_faults_are_named(weights, settings, message):
    with pytest.raises(ValueError, match=message):
        Alignments(SOURCE, WRITTEN, weights, ["a", "b"], **settings)
