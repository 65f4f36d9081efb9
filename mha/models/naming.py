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


def check_tied(state, head, table):
    """Raise if the head has weights of its own, for our models compare with the embeddings."""
    if head in state and not bool((state[head] == state[table]).all()):
        raise ValueError(f"{head} is not {table}: expected a model with tied embeddings")
