"""Measurements on attention: what heads do, found by numbers and not by eye."""

from importlib import import_module

from mha.analysis import dilution, metrics, patterns, similarity

__all__ = [
    "ablation_effects",
    "attention_flow",
    "attention_rollout",
    "capture",
    "control_labels",
    "dilution",
    "entropy_scores",
    "fit_probe",
    "follow_stream",
    "gradient_times_input",
    "gradient_times_weights",
    "influence",
    "integrated_gradients",
    "leave_one_out",
    "mask_gradients",
    "merge_heads",
    "metrics",
    "normalised_by_layer",
    "of_embeddings",
    "patched_heads",
    "patched_stream",
    "patching_effects",
    "patterns",
    "permute_heads",
    "probe_scores",
    "pruning_order",
    "random_scores",
    "remove_heads",
    "restored",
    "row_residual",
    "similarity",
    "split_tokens",
    "split_types",
    "stream_patching_effects",
    "stream_sizes",
    "value_norms",
    "weight_norms",
    "without_heads",
]

_LATER = {
    "ablation_effects": "importance",
    "attention_flow": "rollout",
    "attention_rollout": "rollout",
    "capture": "recording",
    "control_labels": "probe",
    "entropy_scores": "importance",
    "fit_probe": "probe",
    "follow_stream": "stream",
    "gradient_times_input": "attribution",
    "gradient_times_weights": "attribution",
    "influence": "reach",
    "integrated_gradients": "attribution",
    "leave_one_out": "patching",
    "mask_gradients": "importance",
    "merge_heads": "prune",
    "normalised_by_layer": "importance",
    "of_embeddings": "attribution",
    "patched_heads": "patching",
    "patched_stream": "patching",
    "patching_effects": "patching",
    "permute_heads": "prune",
    "probe_scores": "probe",
    "pruning_order": "importance",
    "random_scores": "importance",
    "remove_heads": "prune",
    "restored": "patching",
    "row_residual": "collapse",
    "split_tokens": "probe",
    "split_types": "probe",
    "stream_patching_effects": "patching",
    "stream_sizes": "stream",
    "value_norms": "attribution",
    "weight_norms": "importance",
    "without_heads": "ablation",
}  # some need torch, which measurements on arrays do not


def __getattr__(name):
    if name in _LATER:
        return getattr(import_module(f"mha.analysis.{_LATER[name]}"), name)
    raise AttributeError(f"module 'mha.analysis' has no attribute {name!r}")
