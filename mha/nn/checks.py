"""What only tensors, numbers and positions of this floor can get wrong; `mha.shapes` checks the rest."""

import math
from numbers import Real

import numpy as np
import torch

from mha import shapes

__all__ = ["consecutive", "integers", "keep", "number", "positions", "positive", "tensors"]


def number(name, value):
    """Return a finite number, or raise."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}: expected a number")
    if not -math.inf < value < math.inf:  # torch traces no math.isfinite
        raise ValueError(f"{name} is {value}: expected a finite number")
    return value


def positive(name, value, hint=""):
    """Return a positive number, or raise."""
    if number(name, value) <= 0:
        raise ValueError(f"{name} is {value}: expected a positive number{hint}")
    return value


def tensors(**arrays):
    """Raise unless these are dense tensors on one device."""
    first = None
    for name, x in arrays.items():
        if isinstance(x, np.ndarray):
            raise TypeError(f"{name} is a NumPy array: expected a torch tensor; mha.reference takes arrays")
        if not isinstance(x, torch.Tensor):
            kind = "None" if x is None else f"a {type(x).__name__}"
            raise TypeError(f"{name} is {kind}: expected a torch tensor")
        if x.layout is not torch.strided:
            raise TypeError(f"{name} has layout {x.layout}: expected a dense tensor; {name}.to_dense() converts")
        first = (name, x.device) if first is None else first
        if x.device != first[1]:
            raise ValueError(f"{name} is on {x.device} and {first[0]} is on {first[1]}: expected one device")


def integers(name, x):
    """Raise unless `x` is a tensor of integers."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}: expected a torch tensor of integers")
    if x.dtype == torch.bool or x.is_floating_point() or x.is_complex():
        raise TypeError(f"{name} has dtype {x.dtype}: expected integers")


def positions(name, x, expected):
    """Raise unless `x` holds one integer for each row, shared or per sample."""
    integers(name, x)
    if x.ndim == 0 or x.shape[-1] != expected[-1] or not shapes.fits(x.shape, expected):
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}: expected ({expected[-1]},), or one row per sample {tuple(expected)}"
        )


def keep(name, x, expected):
    """Raise unless `x` says of each token whether it is real."""
    if not isinstance(x, torch.Tensor) or x.dtype is not torch.bool:
        got = f"has dtype {x.dtype}" if isinstance(x, torch.Tensor) else f"is a {type(x).__name__}"
        raise TypeError(f"{name} {got}: expected a boolean tensor, True at the real tokens")
    if tuple(x.shape) != tuple(expected):
        raise ValueError(f"{name} has shape {tuple(x.shape)}: expected {tuple(expected)}, one for each token")


def consecutive(name, x):
    """Raise unless each position is one more than the position before."""
    if bool((x.diff(dim=-1) != 1).any()):
        raise ValueError(
            f"{name} jump: expected consecutive integers where a mask compares positions (padding in front may count "
            "down below 0); say which pairs count with masks.dense instead"
        )
