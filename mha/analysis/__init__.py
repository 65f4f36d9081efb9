"""Measurements on attention: what heads do, found by numbers and not by eye."""

from importlib import import_module

from mha.analysis import metrics, patterns

__all__ = ["capture", "follow_stream", "metrics", "patterns", "stream_sizes", "without_heads"]

_LATER = {
    "capture": "recording",
    "follow_stream": "stream",
    "stream_sizes": "stream",
    "without_heads": "ablation",
}  # some need torch, which measurements on arrays do not


def __getattr__(name):
    if name in _LATER:
        return getattr(import_module(f"mha.analysis.{_LATER[name]}"), name)
    raise AttributeError(f"module 'mha.analysis' has no attribute {name!r}")
