"""Measurements on attention: what heads do, found by numbers and not by eye."""

from importlib import import_module

from mha.analysis import patterns

__all__ = ["capture", "patterns", "without_heads"]

_NEEDS_TORCH = {"capture": "recording", "without_heads": "ablation"}  # measurements on arrays do not


def __getattr__(name):
    if name in _NEEDS_TORCH:
        return getattr(import_module(f"mha.analysis.{_NEEDS_TORCH[name]}"), name)
    raise AttributeError(f"module 'mha.analysis' has no attribute {name!r}")
