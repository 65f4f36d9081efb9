"""One call of an answer on one input, with everything a check wants to know about it."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Trial:
    """`changed` lists the positions of the inputs that the call has overwritten."""

    inputs: tuple
    output: Any = None
    error: BaseException | None = None
    changed: tuple = ()

    @property
    def complaint(self):
        """The error in one line."""
        return " ".join(f"{type(self.error).__name__}: {self.error}".split())

    @property
    def has_returned_none(self):
        return self.error is None and self.output is None

    @property
    def is_unanswered(self):
        """Whether the call did nothing: no value, no effect, or a NotImplementedError."""
        idle = (self.has_returned_none or self.output is ...) and not self.changed
        return idle or isinstance(self.error, NotImplementedError)


def attempt(function, inputs):
    """Call `function` on copies of `inputs`, quietly, and report what came of it."""
    given = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    output = error = None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            output = function(*given)
        except (Exception, SystemExit) as problem:  # whatever a reader's code raises is an answer to report, no crash
            error = problem
    changed = tuple(
        position
        for position, (before, after) in enumerate(zip(inputs, given, strict=True))
        if isinstance(before, np.ndarray) and before.tobytes() != after.tobytes()
    )
    return Trial(inputs, output, error, changed)


def is_real(output):
    """Whether `output` is a real number or a NumPy array of real numbers, truth values included."""
    return isinstance(output, bool | int | float | np.generic | np.ndarray) and np.asarray(output).dtype.kind in "biuf"


def is_of_kind(output, like):
    """Whether `output` is real, boolean where `like` is, and of NumPy where `like` is an array."""
    if not is_real(output) or (np.ndim(like) and not isinstance(output, np.generic | np.ndarray)):
        return False
    return np.asarray(output).dtype.kind == "b" or np.asarray(like).dtype.kind != "b"


def agree(output, expected, tolerance):
    """Whether `output` is `expected` to a relative (and, near zero, absolute) tolerance; NaN agrees with NaN."""
    if not is_of_kind(output, expected) or np.shape(output) != np.shape(expected):
        return False
    output, expected = np.asarray(output, dtype=float), np.asarray(expected, dtype=float)
    return bool(np.isclose(output, expected, rtol=tolerance, atol=tolerance, equal_nan=True).all())


def is_same(one, other, tolerance):
    """Whether two calls on the same input both raised, or agree."""
    if one.error is not None or other.error is not None:
        return one.error is not None and other.error is not None
    return agree(one.output, other.output, tolerance)


def is_telling(trial):
    """Whether an output says enough to know a mistake by it alone: not an error and not a mere yes or no."""
    return trial.error is None and is_real(trial.output) and np.asarray(trial.output).dtype != bool
