"""What torch's scaled_dot_product_attention and ONNX's Attention take; both pin `is_causal` to the upper left."""

import numpy as np

from mha.masks.arrays import in_numpy
from mha.masks.convert.optional import library
from mha.masks.counting import any_visible
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
    start = query_start(mask, n_q, n_k, q_start)
    if not any_visible(~mask, n_q, n_k, start):
        return {}
    if _is_upper_left(mask, n_q, n_k, start):
        return {"is_causal": 1}
    return {"attn_mask": mask.dense(n_q, n_k, start)}


def _is_upper_left(mask, n_q, n_k, start):
    """Tell whether query slot i sees the key slots 0 to i, in every sample and head, and no others."""
    ready = mask.ready(n_q, n_k)
    if ready is not None:
        return bool((in_numpy(ready) == np.tri(n_q, n_k, dtype=bool)).all())
    first = np.unique(in_numpy(start))
    if len(first) != 1:
        return False  # samples that stand apart see other slots, if they compare positions at all
    first = int(first[0])
    triangle = Window(n_q + max(first, 0), -first)  # key slot j ≤ position − start, however far back
    return not any_visible((mask & ~triangle) | (triangle & ~mask), n_q, n_k, start)
