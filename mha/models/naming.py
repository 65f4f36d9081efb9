"""Weights of other libraries under our names: one table of patterns a model."""

import re


def renamed(state, patterns, *, without=r"(?!)"):
    """Return `state` with every (pattern, replacement) applied to its names in turn.

    Names that `without` finds are left out.
    """
    kept = {}
    for name, tensor in state.items():
        if re.search(without, name):
            continue
        for pattern, ours in patterns:
            name = re.sub(pattern, ours, name)
        kept[name] = tensor
    return kept
