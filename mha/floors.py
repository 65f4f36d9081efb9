"""One attention for NumPy and torch: the floor is chosen by what it is given."""

from typing import NamedTuple

import numpy as np

from mha import shapes
from mha.options import hinted
from mha.text import say


class Choice(NamedTuple):
    """The floor that `mha.attention` takes, and why it takes none of the others."""

    floor: str
    refused: dict[str, str]

    def __str__(self):
        return "\n".join([self.floor, *(f"  {floor}: {reason}" for floor, reason in self.refused.items())])


@hinted
def which(q, k, v, **options):
    """Return the floor that `mha.attention` would choose for this call, and why each other was refused.

    Raises as the call itself would.
    """
    shapes.check(q, k, v, **options)
    no_kernels = {"kernels": say("floors.no_kernels")}
    if isinstance(q, np.ndarray):
        return Choice("reference", {"nn": say("floors.not_torch")} | no_kernels)
    return Choice("nn", {"reference": say("floors.not_numpy")} | no_kernels)


def attention(q, k, v, **options):
    """Attend with the floor that fits: NumPy arrays go to `mha.reference`, torch tensors to `mha.nn`.

    The options are the same on every floor: mask, bias, scale, softcap, sinks, q_start, dropout.
    """
    if hasattr(q, "detach"):
        from mha import nn as floor
    else:
        from mha import reference as floor
    return floor.attention(q, k, v, **options)
