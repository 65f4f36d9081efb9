"""How far an approximation of attention is from attention itself."""

import math

import numpy as np

from mha.reference.dot_product import attention

__all__ = ["approximation_error"]


def approximation_error(core, q, k, v, **options):
    """Return the error of a core on these inputs: its root mean square, relative to that of the exact output.

    Exact is what `core.exact` returns, else `attention`. `options` are those of the call. Nothing against nothing is 0.
    """
    exact = getattr(core, "exact", attention)(q, k, v, **options)
    error, size = np.linalg.norm(core(q, k, v, **options) - exact), np.linalg.norm(exact)
    return float(error / size) if size else math.inf if error else 0.0
