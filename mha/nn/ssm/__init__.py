"""State spaces on torch tensors: the functions of `mha.reference`, and the layer of Mamba-2 that calls them."""

from mha.nn.ssm.convolution import causal_convolution
from mha.nn.ssm.mixer import Mamba2, gated_rms_norm
from mha.nn.ssm.scan import selective_scan
from mha.nn.ssm.state_cache import StateCache
from mha.nn.ssm.weights import decay_mask, state_space_weights

__all__ = [
    "Mamba2",
    "StateCache",
    "causal_convolution",
    "decay_mask",
    "gated_rms_norm",
    "selective_scan",
    "state_space_weights",
]
