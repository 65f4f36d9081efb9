"""What torch's scaled_dot_product_attention and ONNX's Attention take; both pin `is_causal` to the upper left."""

import numpy as np

from mha.masks.convert.optional import library
from mha.masks.counting import count_pairs
from mha.masks.distances import Window
from mha.masks.evaluate import query_start

__all__ = ["to_onnx", "to_sdpa"]


def to_sdpa(mask, n_q, n_k, q_start=None):
    """Return {}, {"is_causal": True} or {"attn_mask": …}; see `Mask.to_sdpa`."""
    torch = library("torch")
    arguments = to_onnx(mask, n_q, n_k, q_start)
    if "attn_mask" in arguments:
        return {"attn_mask": torch.from_numpy(np.array(arguments["attn_mask"]))}
    return {name: bool(x) for name, x in arguments.items()}


def to_onnx(mask, n_q, n_k, q_start=None):
    """Return {}, {"is_causal": 1} or {"attn_mask": …}; see `Mask.to_onnx`."""
    if count_pairs(~mask, n_q, n_k, q_start) == 0:
        return {}
    if is_upper_left(mask, n_q, n_k, q_start):
        return {"is_causal": 1}
    return {"attn_mask": mask.dense(n_q, n_k, q_start)}


def is_upper_left(mask, n_q, n_k, q_start=None):
    """Tell whether query slot i sees the key slots 0 to i, in every sample and head, and no others."""
    start = np.unique(np.asarray(query_start(mask, n_q, n_k, q_start)))
    if len(start) != 1:
        return False  # the triangle is in one place; a mask of positions that differ is not worth a look
    triangle = Window(n_q + n_k, -int(start[0]))  # key slot j ≤ position − start
    return count_pairs((mask & ~triangle) | (triangle & ~mask), n_q, n_k, q_start) == 0
