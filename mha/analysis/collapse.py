"""How alike the rows of a stream are: attention alone makes them the same."""

import numpy as np

__all__ = ["row_residual"]


def row_residual(x: "Float[Array, '*b i m']") -> "Float[Array, '*b']":
    """Return ‖x − 1 x̄ᵀ‖ / ‖x‖, what no row shared by all explains.   Book: {eq}`row-residual`.

    0 if all rows are one vector, and 1 at most. Norms are the root of the sum of squares, which the mean row x̄ makes
    least; Dong et al. (2021) measure it by another norm. An x of zeros has no row that differs: 0.
    """
    x = np.asarray(x, np.float64)
    if x.ndim < 2 or x.shape[-2] < 1:
        raise ValueError(f"x has shape {x.shape}: expected (…, i, m) with a row or more")
    own, whole = (np.sqrt(np.square(part).sum((-2, -1))) for part in (x - x.mean(-2, keepdims=True), x))
    return own / np.where(whole == 0, 1.0, whole)
