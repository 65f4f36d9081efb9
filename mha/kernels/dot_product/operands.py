"""The options of a call as what an operator of torch can carry: a text, whole numbers and tensors.

The text holds the structure alone: `(And(Causal(), Window(n[0], n[1])), n[2])`. So torch.compile needs one graph for
each structure, whatever the numbers and tables, and the kernels get back the very values that the caller gave.
"""

import re
from dataclasses import fields
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from mha.dropout import Dropout
from mha.kernels.dot_product.bias_rule import BiasRule, function_named
from mha.masks import Mask
from mha.masks.source import kind_of_mask

__all__ = ["Operands", "assembled", "taken_apart"]

KNOWN = {"Dropout": Dropout, "BiasRule": BiasRule, "function_named": function_named}


class Operands(NamedTuple):
    """A value taken apart."""

    text: str
    numbers: list[int]
    tables: list[torch.Tensor]


def taken_apart(value):
    """Return the `Operands` of a mask, a dropout, a BiasRule, a number, an array, None, or a tuple of these."""
    numbers: list[int] = []
    tables: list[torch.Tensor] = []
    return Operands(_text(value, numbers, tables), numbers, tables)


def assembled(text, numbers, tables):
    """Return the value that was taken apart; its arrays are tensors now."""
    return _code(text)(numbers, tables)


def _text(value, numbers, tables):
    if value is None or isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        return "(" + "".join([_text(part, numbers, tables) + ", " for part in value]) + ")"
    if isinstance(value, (Mask, Dropout)):
        parts = [_text(getattr(value, field.name), numbers, tables) for field in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, (torch.Tensor, np.ndarray)):
        tables.append(value if isinstance(value, torch.Tensor) else torch.as_tensor(np.array(value)))
        return f"t[{len(tables) - 1}]"
    if isinstance(value, BiasRule):
        parts = [_text(table, numbers, tables) for table in value.tables]
        return f"BiasRule({', '.join([f'function_named({value.name!r})', *parts])})"
    numbers.append(value)
    return f"n[{len(numbers) - 1}]"


@cache  # pure: the text is the whole structure
def _code(text):
    kinds = {name: kind_of_mask(name) for name in set(re.findall(r"(\w+)\(", text)) - KNOWN.keys()}
    return eval(f"lambda n, t: {text}", KNOWN | kinds)
