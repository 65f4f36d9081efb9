"""Which keys count, where all queries see the same."""

import numpy as np

from mha import shapes

__all__ = ["visible_keys"]


def visible_keys(asked):
    """Return what the mask of a call shows: booleans that broadcast to (…, heads, j, 1)."""
    see = np.ones((1, 1), bool) if asked.call.mask is None else shapes.visible(asked.of_keys())
    return np.swapaxes(see, -1, -2)
