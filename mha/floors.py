"""One attention for NumPy and torch: the floor is chosen by what it is given."""

from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from mha import shapes
from mha.options import hinted
from mha.text import say

HAS_TRITON = find_spec("triton") is not None
TENSOR_CORES = 80  # the oldest architecture whose tensor cores today's Triton uses


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
    if isinstance(q, np.ndarray):
        return Choice("reference", {"nn": say("floors.not_torch"), "kernels": say("floors.not_torch_either")})
    why = _why_no_kernels(q, k, v, options)
    refused = {"reference": say("floors.not_numpy")}
    if why is None:
        return Choice("kernels", refused | {"nn": say("floors.kernels_serve")})
    return Choice("nn", refused | {"kernels": why()})


def attention(q, k, v, **options):
    """Attend with the floor that fits: NumPy arrays go to `mha.reference`, torch tensors to `mha.nn`.

    CUDA tensors go to `mha.kernels` where these can serve the call; `mha.which` says so beforehand. The options are the
    same on every floor: mask, bias, scale, softcap, sinks, q_start, dropout.
    """
    if not hasattr(q, "detach"):
        from mha import reference as floor
    elif q.is_cuda and _why_no_kernels(q, k, v, options) is None:
        from mha import kernels as floor
    else:
        from mha import nn as floor
    return floor.attention(q, k, v, **options)


def _why_no_kernels(q, k, v, options):
    """Return None if the kernels can take these tensors, else a function that says why not: a graph traces no texts."""
    if not q.is_cuda:
        return partial(say, "floors.not_cuda", device=q.device)
    if not HAS_TRITON:
        return partial(say, "floors.no_triton")
    from mha.kernels.limits import lack
    from mha.kernels.runtime import architecture

    error = lack(q, k, v, bias=options.get("bias"), sinks=options.get("sinks"))
    if error is not None:
        return partial(str, error)
    found = architecture(q.device)
    if found < TENSOR_CORES:
        return partial(say, "floors.no_tensor_cores", capability=f"{found // 10}.{found % 10}")
    return None
