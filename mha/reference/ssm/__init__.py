"""State spaces: each token fades a state of fixed size, writes to it and reads it (Gu and Dao, 2023)."""

from mha.reference.ssm.convolution import causal_convolution
from mha.reference.ssm.mixer import gated_rms_norm, mamba2_mixer
from mha.reference.ssm.scan import parallel_selective_scan, prefix_states, selective_scan
from mha.reference.ssm.weights import decay_mask, state_space_weights

__all__ = [
    "causal_convolution",
    "decay_mask",
    "gated_rms_norm",
    "mamba2_mixer",
    "parallel_selective_scan",
    "prefix_states",
    "selective_scan",
    "state_space_weights",
]
