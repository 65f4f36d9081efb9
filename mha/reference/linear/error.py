"""How far an approximation of attention is from attention itself."""

import numpy as np

from mha.reference.dot_product import attention

__all__ = ["approximation_error"]


def approximation_error(core, q, k, v, **options):
    """Return the error of a core on these inputs: its root mean square, relative to that of the exact output.

    Exact is what `core.exact` returns, else `attention`. `options` are those of the call.
    """
    exact = getattr(core, "exact", attention)(q, k, v, **options)
    return float(np.linalg.norm(core(q, k, v, **options) - exact) / np.linalg.norm(exact))
