"""Try an answer on every case, then say the one most useful thing about it."""

import numpy as np

from mha.exercises.example import shapes_of, show_example
from mha.exercises.registry import find
from mha.exercises.trial import agree, attempt, is_of_kind, is_same, is_telling
from mha.exercises.verdict import Verdict
from mha.text import say

SEED = 2017


def check(id, answer):
    """Check the answer to an exercise and return a Verdict, which displays as a sentence and a small example.

    `answer` is a function, or a number where the exercise is solved on paper. `...` and a function that still
    returns nothing count as not answered yet. Nothing that the answer raises escapes.
    """
    exercise = find(id)
    if answer is None or answer is ...:
        return Verdict(id, False, "unanswered", say("exercises.verdict.unanswered"))
    if exercise.is_on_paper:
        return _check_number(exercise, answer)
    if not callable(answer):
        return Verdict(id, False, "function", say("exercises.verdict.function", type=_type(answer)))
    return _check_function(exercise, answer)


def _check_number(exercise, answer):
    def verdict(property, hint):
        return Verdict(exercise.id, property == "all", property, hint)

    if not is_of_kind(answer, like=0.0) or np.ndim(answer) or isinstance(answer, bool):
        return verdict("number", say("exercises.verdict.number", type=_type(answer)))
    if agree(answer, exercise.solve(), exercise.tolerance):
        return verdict("all", say(f"exercises.{exercise.id}.praise"))
    for name, slip in exercise.mistakes.items():
        if agree(answer, slip(), exercise.tolerance):
            return verdict(name, say(f"exercises.{exercise.id}.mistakes.{name}"))
    return verdict("value", say(f"exercises.{exercise.id}.hint"))


def _check_function(exercise, answer):
    cases = exercise.cases(np.random.default_rng(SEED))
    trials = [attempt(answer, inputs) for inputs in cases]
    if trials[0].is_unanswered:
        hint = "returns_nothing" if trials[0].has_returned_none else "unanswered"
        return Verdict(exercise.id, False, "unanswered", say(f"exercises.verdict.{hint}"))
    for trial in trials:
        if trial.changed:
            name = exercise.parameters[trial.changed[0]]
            return Verdict(exercise.id, False, "mutated", say("exercises.verdict.mutated", name=name))

    right = [exercise.solve(*inputs) for inputs in cases]
    pairs = zip(trials, right, strict=True)
    failed = [n for n, (trial, wanted) in enumerate(pairs) if not agree(trial.output, wanted, exercise.tolerance)]
    if not failed:
        return Verdict(exercise.id, True, "all", say(f"exercises.{exercise.id}.praise"))
    first, wanted = trials[failed[0]], right[failed[0]]
    property, hint = _recognise(exercise, trials, failed[0]) or _diagnose(exercise, first, wanted)
    example = "" if property == "raises" else show_example(exercise.parameters, first, wanted)
    return Verdict(exercise.id, False, property, hint, example)


def _recognise(exercise, trials, first):
    """Name the known mistake that behaves most like the answer: in all cases, or at least in the first that failed.

    The second happens when an answer holds two mistakes, and the other one shows only in later cases.
    """
    best, most = None, 0
    for name, mistake in exercise.mistakes.items():
        same = [is_same(trial, attempt(mistake, trial.inputs), exercise.tolerance) for trial in trials]
        if sum(same) > most and (all(same) or (same[first] and is_telling(trials[first]))):
            best, most = name, sum(same)
    return best and (best, say(f"exercises.{exercise.id}.mistakes.{best}"))


def _diagnose(exercise, trial, expected):
    """Name the first property that fails, from the outside in: error, type, shape, numbers."""
    output, inputs = trial.output, trial.inputs
    if trial.error is not None:
        shapes = shapes_of(exercise.parameters, inputs)
        return "raises", say("exercises.verdict.raises", error=trial.complaint, inputs=shapes)
    if not is_of_kind(output, expected):
        return "type", say("exercises.verdict.type", expected=_kind(expected), type=_type(output))
    if np.shape(output) != np.shape(expected):
        return "shape", say("exercises.verdict.shape", got=np.shape(output), expected=np.shape(expected))
    if np.isfinite(expected).all() and not np.isfinite(output).all():
        return "finite", say("exercises.verdict.finite")
    dtype = np.asarray(output).dtype
    if dtype in (np.float16, np.float32) and agree(output, expected, 1e-2):
        return "precision", say("exercises.verdict.precision", dtype=dtype)
    for name, holds in exercise.properties.items():
        if not holds(output, *inputs):
            return name, say(f"exercises.{exercise.id}.properties.{name}")
    return "values", say("exercises.verdict.values")


def _kind(expected):
    is_boolean = np.asarray(expected).dtype.kind == "b"
    one, many = ("truth", "booleans") if is_boolean else ("number", "numbers")
    return say(f"exercises.kind.{many if np.ndim(expected) else one}")


def _type(x):
    """Name the type of a value, with its library and, for an array, what it holds."""
    library = type(x).__module__.partition(".")[0]
    name = type(x).__name__ if library == "builtins" else f"{library}.{type(x).__name__}"
    return f"{name} of {x.dtype}" if isinstance(x, np.ndarray) else name
