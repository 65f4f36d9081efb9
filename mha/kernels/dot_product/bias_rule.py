"""A bias that is a function of positions: the kernels compute it where they need it, and nobody stores n² numbers."""

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import triton.language as tl

from mha.kernels.limits import check_tensors

__all__ = ["BiasRule", "alibi", "function_named"]


class BiasRule:
    """What `function(at, b, h, i, j, p)` gives is added to the score of the query at position i and the key at j.

    The function is written in Triton's language: b and h are numbers, i and j blocks of positions that broadcast to the
    tile, and `at(p[n], index)` reads the n-th of `tables`. It stands in a module (a closure would be compiled once for
    all that it closes over) and has no gradient: a bias to learn is a tensor. `num_heads` is how many query heads the
    tables are for, if it matters. `alibi(slopes)` is this function with one table::

        def alibi_bias(at, b, h, i, j, p):
            return -at(p[0], h) * tl.abs(i - j)
    """

    def __init__(self, function: Callable[..., Any], *tables: torch.Tensor, num_heads: int | None = None):
        function = getattr(function, "fn", function)  # of one that triton.jit has already taken
        self.name = name_of(function)
        for n, table in enumerate(tables):
            if not isinstance(table, torch.Tensor):
                raise TypeError(f"tables[{n}] is a {type(table).__name__}: expected a tensor")
        self.function, self.tables, self.num_heads = function, tables, num_heads

    def check(self, num_heads):
        """Raise unless the rule serves so many query heads, and no table waits for a gradient."""
        if self.num_heads not in (None, num_heads):
            raise ValueError(f"bias is a BiasRule for {self.num_heads} heads and q has {num_heads}: expected as many")
        for n, table in enumerate(self.tables):
            if table.requires_grad and torch.is_grad_enabled():
                raise ValueError(
                    f"tables[{n}] of the BiasRule requires a gradient, and a rule has none: expected"
                    f" tables[{n}].detach(), or the bias as a tensor"
                )

    def on(self, device):
        """Return the tables on a device, each in one piece."""
        return tuple(table.detach().to(device).contiguous() for table in self.tables)

    def __repr__(self):
        return f"BiasRule({self.name}, {len(self.tables)} tables)"


def alibi(slopes: torch.Tensor) -> BiasRule:
    """Return the bias `−slopes[h] · |i − j|` of Press et al. (2022): one slope per query head."""
    check_tensors(slopes=slopes)
    if slopes.ndim != 1:
        raise ValueError(f"slopes has shape {tuple(slopes.shape)}: expected (heads,), one slope per query head")
    return BiasRule(alibi_bias, slopes, num_heads=len(slopes))


def alibi_bias(at, b, h, i, j, p):
    return -at(p[0], h) * tl.abs(i - j)


@torch.compiler.assume_constant_result  # torch.compile does not trace the names of functions
def name_of(function):
    """Return the name that `function_named` takes, of a function that stands in a module."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"function is a {type(function).__name__}: expected a function that stands in a module")
    if "<" in function.__qualname__:
        raise ValueError(f"function is {function.__qualname__}: expected one that stands in a module, no closure")
    if function.__code__.co_argcount != 6:
        raise TypeError(
            f"{function.__qualname__} has {function.__code__.co_argcount} arguments: expected at, b, h, i, j, p"
        )
    return f"{function.__module__}:{function.__qualname__}"


def function_named(name):
    """Return the function that a BiasRule names: "module:name"."""
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return getattr(found, "fn", found)
