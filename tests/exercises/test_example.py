"""Examples are small, rounded and never fail, whatever the answer was."""

import numpy as np

from mha.exercises.example import shapes_of, show_example
from mha.exercises.trial import Trial


def test_small_arrays_are_shown_whole_and_rounded():
    text = show_example(["x"], Trial((np.array([[-0.00001, 1 / 3], [2.0, np.nan]]),), output=0.5), 2 / 3)
    assert text.splitlines() == [
        "x = [[0.    0.333]",
        "     [2.      nan]]",
        "your answer = 0.5",
        "right answer = 0.667",
    ]


def test_large_arrays_are_shown_by_shape_and_first_difference():
    expected = np.zeros((2, 3, 7))
    output = expected.copy()
    output[1, 2, 5] = -0.25
    text = show_example(["x", "n"], Trial((np.ones((5, 7)), 3), output), expected)
    assert text.splitlines() == [
        "x: array of shape (5, 7)",
        "n = 3",
        "first difference at [1, 2, 5]: your answer -0.25, right answer 0",
    ]


def test_large_inputs_do_not_hide_small_outputs():
    text = show_example(["x"], Trial((np.ones((5, 7)),), np.zeros(2)), np.ones(2))
    assert "your answer = [0. 0.]" in text


def test_an_output_of_another_kind_is_not_printed():
    assert show_example(["n"], Trial((3,), output=[[1], [2, 3]]), np.ones(2)) == "n = 3"


def test_an_error_stands_in_for_the_output():
    text = show_example(["n"], Trial((3,), error=IndexError("too far")), np.ones(2))
    assert text.splitlines() == ["n = 3", "your answer stops with IndexError: too far"]


def test_inputs_in_one_line():
    assert shapes_of(["f", "x", "t"], (np.cumsum, np.ones((2, 3)), 5)) == "f cumsum, x (2, 3), t 5"
