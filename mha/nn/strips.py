"""Some heads of what holds a contiguous strip a head: parameters, linear layers, position schemes."""

import copy

import torch
from torch import nn

__all__ = ["linear_of_heads", "of_heads", "shallow_copy"]


def of_heads(parameter, heads, width=1, dim=0):
    """Return the strips of these heads, each `width` long on the axis `dim`, as a parameter of their own."""
    if parameter is None:
        return None
    starts = torch.tensor(heads, device=parameter.device) * width
    rows = (starts[:, None] + torch.arange(width, device=parameter.device)).flatten()
    return nn.Parameter(parameter.detach().index_select(dim, rows), requires_grad=parameter.requires_grad)


def linear_of_heads(linear, heads, width):
    """Return a linear layer with the rows of these heads alone, each `width` wide."""
    made = shallow_copy(linear)
    made.weight, made.bias = (of_heads(part, heads, width) for part in (linear.weight, linear.bias))
    made.out_features = len(heads) * width
    return made


def shallow_copy(module):
    """Return a module with the same parameters, buffers and parts, which can be replaced in it alone."""
    made = copy.copy(module)
    for name in ("_parameters", "_buffers", "_modules"):
        setattr(made, name, dict(getattr(module, name)))
    return made
