"""The kernels of the book's chapter on FlashAttention: the same mathematics as the full ones, and nothing else.

One width for queries, keys and values, a power of two from 16 to 128; as many key heads as query heads; causal or not.
"""

from mha.kernels.teaching.dot_product import attention
from mha.kernels.teaching.traffic import counted_traffic

__all__ = ["attention", "counted_traffic"]
