"""The failing input and both outputs, small and rounded."""

import numpy as np

from mha.exercises.trial import is_real
from mha.text import say

SHOWN = 30  # numbers; beyond that an array is described by its shape


def shape_of(x):
    """Describe an input in a few words: the shape of an array, the value of a number, the name of a function."""
    if isinstance(x, np.ndarray):
        return str(x.shape)
    return getattr(x, "__name__", None) or f"{x}"


def shapes_of(parameters, inputs):
    """List all inputs in one line."""
    return ", ".join(f"{name} {shape_of(x)}" for name, x in zip(parameters, inputs, strict=True))


def show_example(parameters, trial, expected):
    """Print the inputs and outputs of one trial, or only where they differ first if they are large."""
    entry = _entry if sum(map(np.size, trial.inputs)) <= SHOWN else _outline
    lines = [entry(name, x) for name, x in zip(parameters, trial.inputs, strict=True)]
    if trial.error is not None:
        lines += [say("exercises.example.error", error=trial.complaint)]
    elif is_real(trial.output):
        if np.size(trial.output) <= SHOWN and np.size(expected) <= SHOWN:
            lines += [_entry(say("exercises.example.yours"), trial.output)]
            lines += [_entry(say("exercises.example.right"), expected)]
        elif np.shape(trial.output) == np.shape(expected):
            lines += [_first_difference(np.asarray(trial.output, float), np.asarray(expected, float))]
    return "\n".join(lines)


def _outline(name, x):
    return f"{name}: {say('exercises.example.array', shape=x.shape)}" if np.ndim(x) else _entry(name, x)


def _entry(name, x):
    first, *others = _rounded(x).splitlines()
    return "\n".join([f"{name} = {first}", *((" " * (len(name) + 3) + line).rstrip() for line in others)])


def _rounded(x):
    if not isinstance(x, np.ndarray | float | np.floating):
        return shape_of(x)
    x = np.asarray(x)
    if x.dtype.kind == "f":
        x = x.round(3) + 0.0  # adding zero turns −0 into 0
    return f"{x:g}" if x.ndim == 0 else np.array2string(x, precision=3, suppress_small=True, max_line_width=72)


def _first_difference(output, expected):
    wrong = ~np.isclose(output, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    index = tuple(int(axis[0]) for axis in np.nonzero(wrong))
    where = ", ".join(map(str, index))
    yours, right = (_rounded(array[index]) for array in (output, expected))
    return say("exercises.example.difference", index=where, yours=yours, right=right)
