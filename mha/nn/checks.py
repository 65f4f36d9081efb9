"""What only tensors, layers and their positions can get wrong; `mha.shapes` checks the rest."""

import math
from numbers import Real

import numpy as np
import torch

from mha import shapes

__all__ = ["consecutive", "layer_input", "positions", "positive_integers", "positive_number", "tensors"]


def tensors(**arrays):
    """Raise if one of these comes from NumPy, or was left out."""
    for name, x in arrays.items():
        if isinstance(x, np.ndarray):
            raise TypeError(f"{name} is a NumPy array: expected a torch tensor; mha.reference takes arrays")
        if x is None:
            raise TypeError(f"{name} is None: expected a torch tensor")


def positions(name, x, expected):
    """Raise unless `x` holds one integer for each row, shared or per sample."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}: expected a torch tensor of integers")
    if x.dtype == torch.bool or x.is_floating_point() or x.is_complex():
        raise TypeError(f"{name} has dtype {x.dtype}: expected integers")
    if x.ndim == 0 or x.shape[-1] != expected[-1] or shapes.broadcast(tuple(x.shape), expected) != tuple(expected):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}: expected ({expected[-1]},), or one row per sample {tuple(expected)}"
        )


def consecutive(name, x):
    """Raise unless each position is one more than the position before."""
    if bool((x.diff(dim=-1) != 1).any()):
        raise ValueError(
            f"{name} jump: expected consecutive integers where a mask compares positions (padding in front may count "
            "down below 0); say which pairs count with masks.dense instead"
        )


def layer_input(name, x, linear):
    """Raise unless a linear layer can take `x`."""
    tensors(**{name: x})
    shapes.check_input(name, x, linear.in_features)
    weight = linear.weight
    free = not isinstance(weight, torch.Tensor) or not weight.is_floating_point()  # a quantized layer casts by itself
    if free or x.dtype == weight.dtype or torch.is_autocast_enabled(x.device.type):
        return
    raise TypeError(f"{name} has dtype {x.dtype}: expected {weight.dtype}, the dtype of the weights; x.to(…) converts")


def positive_integers(**sizes):
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise TypeError(f"{name} is {size!r}: expected a positive integer")
        if size < 1:
            raise ValueError(f"{name} is {size}: expected a positive integer")


def positive_number(name, value):
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}: expected a positive number")
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value}: expected a positive number")
