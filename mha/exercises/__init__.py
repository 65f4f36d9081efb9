"""Exercises that answer back: `check("dot-product-2", attention_weights)`."""

from mha.exercises.checking import check
from mha.exercises.exercise import Exercise
from mha.exercises.registry import find, registry
from mha.exercises.verdict import Verdict

__all__ = ["Exercise", "Verdict", "check", "find", "registry"]
