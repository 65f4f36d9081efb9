"""Attention whose cost is proportional to the length: linear attention, its descendants, and approximations."""

from mha.nn.linear.delta import delta_rule
from mha.nn.linear.error import approximation_error
from mha.nn.linear.feature_maps import FeatureAttention, elu_plus_one, relu, softmax_features, squared_relu
from mha.nn.linear.gated import gated_linear_attention
from mha.nn.linear.linformer import Linformer
from mha.nn.linear.nystrom import Nystrom, convolved_values, iterative_pseudo_inverse, segment_means
from mha.nn.linear.performer import Performer, positive_features
from mha.nn.linear.recurrent import linear_attention, linear_average, retention_log_decay
from mha.nn.linear.reformer import Reformer, angular_hash, shared_keys
from mha.nn.linear.ssd import selective_state_space

__all__ = [
    "FeatureAttention",
    "Linformer",
    "Nystrom",
    "Performer",
    "Reformer",
    "angular_hash",
    "approximation_error",
    "convolved_values",
    "delta_rule",
    "elu_plus_one",
    "gated_linear_attention",
    "iterative_pseudo_inverse",
    "linear_attention",
    "linear_average",
    "positive_features",
    "relu",
    "retention_log_decay",
    "segment_means",
    "selective_state_space",
    "shared_keys",
    "softmax_features",
    "squared_relu",
]
