"""How far an approximation of attention is from attention itself."""

import torch

from mha.nn.dot_product import attention

__all__ = ["approximation_error"]


@torch.no_grad()
def approximation_error(core, q, k, v, **options):
    """Return the error of a core on these inputs: its root mean square, relative to that of the exact output.

    Exact is what `core.exact` returns, else `mha.nn.attention`. `options` are those of the call.
    """
    exact = getattr(core, "exact", attention)(q, k, v, **options)
    return float(torch.linalg.vector_norm(core(q, k, v, **options) - exact) / torch.linalg.vector_norm(exact))
