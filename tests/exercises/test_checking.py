"""What a reader is told, whatever is handed in."""

import numpy as np
import pytest
import torch

from mha.exercises import check, registry
from mha.text import say

FUNCTIONS = [exercise for exercise in registry().values() if not exercise.is_on_paper]
ON_PAPER = [exercise for exercise in registry().values() if exercise.is_on_paper]


def each(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=lambda exercise: exercise.id)


def unwritten(*inputs): ...


def postponed(*inputs):
    raise NotImplementedError


@each(registry().values())
@pytest.mark.parametrize("answer", [..., None])
def test_dots_are_not_answered_yet(exercise, answer):
    verdict = check(exercise.id, answer)
    assert (verdict.passed, verdict.property) == (False, "unanswered")
    assert "not answered yet" in repr(verdict)


@each(FUNCTIONS)
@pytest.mark.parametrize("answer", [unwritten, lambda *inputs: ..., postponed])
def test_an_empty_function_is_not_answered_yet(exercise, answer):
    assert check(exercise.id, answer).property == "unanswered"


def test_a_forgotten_return_is_thought_of():
    assert "return" in check("heads-1", unwritten).hint


@each(FUNCTIONS)
def test_an_error_is_told_in_one_line_with_the_shapes(exercise):
    def answer(*inputs):
        raise KeyError("two\nlines")

    verdict = check(exercise.id, answer)
    assert verdict.property == "raises"
    assert r"KeyError: 'two\nlines'" in verdict.hint
    assert all(name in verdict.hint for name in exercise.parameters)
    assert "Traceback" not in repr(verdict)


def test_an_exit_does_not_end_the_kernel():
    def answer(*inputs):
        raise SystemExit(3)

    verdict = check("dot-product-2", answer)
    assert verdict.property == "raises"
    assert "SystemExit: 3" in verdict.hint


@pytest.mark.parametrize("id", [["dot-product-2"], None, 3])
def test_an_id_is_a_string(id):
    with pytest.raises(TypeError, match=r"id is .*: expected a string, for example 'first-look-1'"):
        check(id, ...)


def test_the_shapes_of_a_failing_call_are_named():
    verdict = check("dot-product-2", lambda q, k: q @ k)
    assert "q (2, 2), k (3, 2)" in verdict.hint


def test_a_wrong_number_of_parameters_is_an_error_like_others():
    assert "takes 1 positional argument" in check("dot-product-2", lambda q: q).hint


NOT_DOUBLED = (
    "rotary-4",
    "sparse-1",
    "sparse-2",
    "sparse-4",
    "sparse-5",
    "dot-product-3",
    "first-look-5",
    "grouped-1",
    "generation-5",
    "kernels-1",
    "relative-1",
    "position-2",
    "position-3",
    "translation-3",
    "bert-3",
    "transformer-4",
    "transformer-5",
    "translation-6",
    "bugs-3",
    "bugs-5",
    "pruning-1",
    "pruning-2",
    "long-range-1",
    "long-range-2",
)  # integers, truths and functions


@each([exercise for exercise in FUNCTIONS if exercise.id not in NOT_DOUBLED])
def test_an_overwritten_input_is_named(exercise):
    def answer(first, *others):
        result = exercise.solve(first, *others)
        first *= 2
        return result

    verdict = check(exercise.id, answer)
    assert verdict.property == "mutated"
    assert exercise.parameters[0] in verdict.hint


def test_working_in_place_without_a_return_is_not_taken_for_unanswered():
    def answer(scores):
        scores *= 0

    assert check("dot-product-1", answer).property == "mutated"


@each(FUNCTIONS)
@pytest.mark.parametrize("convert", [torch.as_tensor, str, lambda x: np.asarray(x) + 0j, lambda x: [x]])
def test_another_type_is_named(exercise, convert):
    verdict = check(exercise.id, lambda *inputs: convert(exercise.solve(*inputs)))
    assert verdict.property == "type"
    assert "expected" in verdict.hint


def test_a_tensor_is_called_a_tensor():
    verdict = check("dot-product-1", lambda scores: torch.softmax(torch.as_tensor(scores).double(), -1))
    assert "torch.Tensor" in verdict.hint


@each(FUNCTIONS)
def test_another_shape_is_named(exercise):
    verdict = check(exercise.id, lambda *inputs: np.asarray(exercise.solve(*inputs))[None])
    assert verdict.property == "shape"
    assert "(1," in verdict.hint


OF_TRUTHS = (
    "dot-product-3", "first-look-5", "grouped-1", "transformer-4", "translation-6", "generation-5", "bert-3"
)  # fmt: skip
ONES_OF_FLOATS = [exercise for exercise in FUNCTIONS if exercise.id not in OF_TRUTHS]


@each(ONES_OF_FLOATS)
def test_nan_is_named(exercise):
    assert check(exercise.id, lambda *inputs: np.asarray(exercise.solve(*inputs)) * np.nan).property == "finite"


FITS_FLOAT32 = (
    "rotary-4",
    "relative-3",
    "position-3",
    "sparse-1",
    "sparse-2",
    "sparse-4",
    "sparse-5",
    "heads-1",
    "heads-2",
    "heads-6",
    "flash-2",
    "kernels-1",
    "mixed-precision-1",
    "mixed-precision-4",
    "transformer-5",
    "translation-4",
    "bert-1",
    "redundancy-3",
    "scaling-limits-2",
    "scaling-limits-4",
    "bugs-3",
    "bugs-4",
    "pruning-1",
    "pruning-2",
    "long-range-2",
)


@each([exercise for exercise in ONES_OF_FLOATS if exercise.id not in FITS_FLOAT32])
def test_low_precision_is_told_from_a_mistake(exercise):
    def answer(*inputs):
        return np.asarray(exercise.solve(*inputs) * 1.0).astype(np.float32)

    verdict = check(exercise.id, answer)
    assert verdict.property == "precision"
    assert "float32" in verdict.hint


def test_a_number_where_a_function_is_asked_for():
    assert check("dot-product-1", 3.0).property == "function"


@each(ON_PAPER)
@pytest.mark.parametrize("answer", ["4", True, [4.0], np.array([4.0]), 4j, print])
def test_something_else_where_a_number_is_asked_for(exercise, answer):
    assert check(exercise.id, answer).property == "number"


@each(ON_PAPER)
def test_a_wrong_number_gets_a_hint_that_does_not_give_the_answer(exercise):
    verdict = check(exercise.id, -1)
    assert verdict.property == "value"
    assert verdict.hint == say(f"exercises.{exercise.id}.hint")
    assert f"{exercise.solve():g}" not in verdict.hint.split()


@each(ON_PAPER)
@pytest.mark.parametrize("kind", [float, np.float32, np.float64, np.array])
def test_a_number_of_any_type_is_right(exercise, kind):
    assert check(exercise.id, kind(exercise.solve())).passed


def test_an_unknown_id_names_its_neighbours():
    with pytest.raises(ValueError, match=r"'dot-product-99'.*dot-product-\d"):
        check("dot-product-99", ...)


def test_the_same_answer_gets_the_same_verdict_and_leaves_the_global_generator_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    one, other = (check("dot-product-5", lambda q, k, v, mask: q * 0.1) for _ in range(2))
    assert repr(one) == repr(other)
    assert one._repr_html_() == other._repr_html_()
    assert (state == np.random.get_state()[1]).all()  # noqa: NPY002
