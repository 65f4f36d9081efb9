"""Measurements on attention: what heads do, found by numbers and not by eye."""

from importlib import import_module

from mha.analysis import patterns

__all__ = ["capture", "patterns"]


def __getattr__(name):
    if name == "capture":  # needs torch; measurements on arrays do not
        return import_module("mha.analysis.recording").capture
    raise AttributeError(f"module 'mha.analysis' has no attribute {name!r}")
