"""Attention whose cost is proportional to the length: linear attention, its descendants, and approximations."""

from mha.reference.linear.delta import chunked_delta_rule, delta_rule, parallel_delta_rule
from mha.reference.linear.error import approximation_error
from mha.reference.linear.feature_maps import FeatureAttention, elu_plus_one, relu, softmax_features, squared_relu
from mha.reference.linear.gated import (
    chunked_gated_linear_attention,
    gated_linear_attention,
    parallel_gated_linear_attention,
)
from mha.reference.linear.linformer import Linformer
from mha.reference.linear.nystrom import Nystrom, convolved_values, iterative_pseudo_inverse, segment_means
from mha.reference.linear.performer import Performer, positive_features
from mha.reference.linear.recurrent import (
    chunked_linear_attention,
    linear_attention,
    linear_average,
    parallel_linear_attention,
    retention_log_decay,
)
from mha.reference.linear.reformer import Reformer, angular_hash, shared_keys
from mha.reference.linear.ssd import selective_state_space
from mha.reference.linear.variance import feature_variance

__all__ = [
    "FeatureAttention",
    "Linformer",
    "Nystrom",
    "Performer",
    "Reformer",
    "angular_hash",
    "approximation_error",
    "chunked_delta_rule",
    "chunked_gated_linear_attention",
    "chunked_linear_attention",
    "convolved_values",
    "delta_rule",
    "elu_plus_one",
    "feature_variance",
    "gated_linear_attention",
    "iterative_pseudo_inverse",
    "linear_attention",
    "linear_average",
    "parallel_delta_rule",
    "parallel_gated_linear_attention",
    "parallel_linear_attention",
    "positive_features",
    "relu",
    "retention_log_decay",
    "segment_means",
    "selective_state_space",
    "shared_keys",
    "softmax_features",
    "squared_relu",
]
