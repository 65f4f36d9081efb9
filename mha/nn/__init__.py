"""The PyTorch floor: the functions of `mha.reference` on tensors, and Modules that own parameters and call them."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as missing:
    hint = "mha.nn needs torch: in a checkout, pip install '.[torch]'"
    raise ModuleNotFoundError(hint, name=missing.name) from None

from mha.nn.cache import Cache, cached_attention
from mha.nn.dot_product import attention, attention_weights
from mha.nn.heads import MultiHeadAttention, join_heads, split_heads
from mha.nn.norm import AfterPosition
from mha.nn.onnx import to_onnx
from mha.nn.rotary import Rotary, rotate
from mha.nn.row_stats import Stats, attention_stats

__all__ = [
    "AfterPosition",
    "Cache",
    "MultiHeadAttention",
    "Rotary",
    "Stats",
    "attention",
    "attention_stats",
    "attention_weights",
    "cached_attention",
    "join_heads",
    "rotate",
    "split_heads",
    "to_onnx",
]
