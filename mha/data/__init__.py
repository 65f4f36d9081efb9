"""Real data and real models: texts with the package, pretrained weights from a cache, captured results of theirs."""

from mha.data.captures import Capture, capture
from mha.data.checkpoints import checkpoint
from mha.data.reading import read_pairs
from mha.data.results import result
from mha.data.tables import load
from mha.data.unavailable import DataUnavailable
from mha.data.weights import Pretrained, pretrained

__all__ = [
    "Capture",
    "DataUnavailable",
    "Pretrained",
    "capture",
    "checkpoint",
    "load",
    "pretrained",
    "read_pairs",
    "result",
]
