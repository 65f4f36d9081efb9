"""How far an approximation of attention is from attention itself."""

import math

import torch

from mha.nn.dot_product import attention

__all__ = ["approximation_error"]


@torch.no_grad()
def approximation_error(core, q, k, v, **options):
    """Return the error of a core on these inputs: its root mean square, relative to that of the exact output.

    Exact is what `core.exact` returns, else `mha.nn.attention`. `options` are those of the call. Nothing against
    nothing is 0.
    """
    exact = getattr(core, "exact", attention)(q, k, v, **options)
    error, size = (torch.linalg.vector_norm(x).item() for x in (core(q, k, v, **options) - exact, exact))
    return error / size if size else math.inf if error else 0.0
