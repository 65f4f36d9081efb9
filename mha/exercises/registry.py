"""Every exercise by its id."""

import difflib
from importlib import import_module

CHAPTERS = (
    "first_look",
    "alignment",
    "query_key_value",
    "dot_product",
    "heads",
    "gradients",
    "cost",
    "position",
    "relative",
    "rotary",
    "sparse",
    "linear",
    "grouped",
    "redundancy",
    "pruning",
    "transformer",
    "translation",
    "generation",
    "bert",
    "scaling_limits",
    "long_range",
    "interpretability",
    "bugs",
    "flash",
    "kernels",
    "mixed_precision",
)


def registry():
    """Return the exercises of all chapters, in order, as a mapping from id to Exercise."""
    chapters = (import_module(f"mha.exercises.{stem}") for stem in CHAPTERS)
    return {exercise.id: exercise for chapter in chapters for exercise in chapter.EXERCISES}


def find(id):
    """Return the exercise called `id`; an unknown id raises and names its nearest neighbours."""
    exercises = registry()
    if not isinstance(id, str):
        raise TypeError(f"id is {id!r}: expected a string, for example {next(iter(exercises))!r}")
    if id not in exercises:
        near = difflib.get_close_matches(id, exercises) or list(exercises)
        raise ValueError(f"id is {id!r}: expected an exercise of the book, for example {', '.join(near)}")
    return exercises[id]
