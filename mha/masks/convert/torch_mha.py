"""The two mask arguments of torch.nn.MultiheadAttention, where True means hidden."""

import numpy as np

from mha.integers import count
from mha.masks.convert.optional import library
from mha.masks.padding import key_padding
from mha.masks.slots import dense

__all__ = ["from_torch_mha", "to_torch_mha"]


def from_torch_mha(attn_mask=None, key_padding_mask=None, *, num_heads=None):
    """Return the mask that both arguments of torch.nn.MultiheadAttention say together; None if neither is given.

    `attn_mask` is (i, j), or (b·h, i, j) with `num_heads` = h; `key_padding_mask` is (b, j) or (j,). There True means
    hidden. Floats may be 0 and −inf; others are added to the scores, which is `bias=` here.
    """
    terms = []
    if attn_mask is not None:
        keep = ~_hidden("attn_mask", attn_mask)
        terms.append(dense(keep if keep.ndim == 2 else _by_head(keep, num_heads)))
    if key_padding_mask is not None:
        keep = ~_hidden("key_padding_mask", key_padding_mask)
        if keep.ndim not in (1, 2):
            raise ValueError(f"key_padding_mask has shape {tuple(keep.shape)}: expected (b, j) or (j,)")
        terms.append(key_padding(keep if keep.ndim == 2 else keep[None]))
    return terms[0] & terms[1] if len(terms) == 2 else terms[0] if terms else None


def to_torch_mha(mask, n_q, n_k, *, batch=None, num_heads=None, q_start=None):
    """Return {"attn_mask": …, "key_padding_mask": …}, or one of them, or {}; see `Mask.to_torch_mha`."""
    torch = library("torch")
    see = mask.dense(n_q, n_k, q_start)
    see = see.reshape((1,) * (4 - see.ndim) + see.shape)
    batch = see.shape[0] if batch is None else count("batch", batch)
    num_heads = see.shape[1] if num_heads is None else count("num_heads", num_heads)
    hidden = ~_of_all(see, batch, num_heads)
    padding = hidden.all((1, 2)) if see.shape[0] > 1 else np.zeros((batch, n_k), bool)
    inside = hidden & ~padding[:, None, None]
    shared = inside.any((0, 1))  # (i, j)
    if ((shared | padding[:, None, None]) != hidden).any():
        shared = inside.reshape(batch * num_heads, n_q, n_k)
    arguments = {"attn_mask": shared, "key_padding_mask": padding}
    return {name: torch.from_numpy(x) for name, x in arguments.items() if x.any()}


def _hidden(name, array):
    """Return what is hidden as a boolean array; it may be given as the floats 0 and −inf."""
    if not hasattr(array, "dtype"):
        raise TypeError(f"{name} is a {type(array).__name__}: expected a tensor or an array")
    if str(array.dtype).endswith("bool"):
        return array
    if "float" not in str(array.dtype):
        raise TypeError(f"{name} has dtype {array.dtype}: expected booleans, True = hidden, or floats 0 and −inf")
    hidden = array == -np.inf
    if ((array != 0) & ~hidden).any():
        raise ValueError(
            f"{name} holds numbers other than 0 and −inf: expected a mask; what is added to the scores is bias="
        )
    return hidden


def _by_head(keep, num_heads):
    if keep.ndim != 3:
        raise ValueError(f"attn_mask has shape {tuple(keep.shape)}: expected (i, j) or (b·h, i, j)")
    if num_heads is None:
        raise ValueError(f"attn_mask has shape {tuple(keep.shape)}, (b·h, i, j): num_heads= says how many are a sample")
    if len(keep) % count("num_heads", num_heads, least=1):
        raise ValueError(f"attn_mask has {len(keep)} rows of b·h and num_heads is {num_heads}: expected a multiple")
    return keep.reshape(-1, num_heads, *keep.shape[1:])


def _of_all(see, batch, num_heads):
    for name, got, wanted in (("batch", see.shape[0], batch), ("num_heads", see.shape[1], num_heads)):
        if got not in (1, wanted):
            raise ValueError(f"{name} is {wanted} and the mask tells {got} apart: expected {got}")
    return np.broadcast_to(see, (batch, num_heads, *see.shape[2:]))
