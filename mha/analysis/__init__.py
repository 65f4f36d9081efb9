"""Measurements on attention: what heads do, found by numbers and not by eye."""

from importlib import import_module

from mha.analysis import metrics, patterns

__all__ = [
    "ablation_effects",
    "capture",
    "entropy_scores",
    "follow_stream",
    "mask_gradients",
    "metrics",
    "normalised_by_layer",
    "patterns",
    "pruning_order",
    "random_scores",
    "stream_sizes",
    "weight_norms",
    "without_heads",
]

_LATER = {
    "ablation_effects": "importance",
    "capture": "recording",
    "entropy_scores": "importance",
    "follow_stream": "stream",
    "mask_gradients": "importance",
    "normalised_by_layer": "importance",
    "pruning_order": "importance",
    "random_scores": "importance",
    "stream_sizes": "stream",
    "weight_norms": "importance",
    "without_heads": "ablation",
}  # some need torch, which measurements on arrays do not


def __getattr__(name):
    if name in _LATER:
        return getattr(import_module(f"mha.analysis.{_LATER[name]}"), name)
    raise AttributeError(f"module 'mha.analysis' has no attribute {name!r}")
