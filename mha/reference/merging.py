"""Attention over parts of the keys, put together: what splits, rings and shared prefixes rest on."""

import numpy as np

from mha import shapes
from mha.reference.dot_product import log_sum_exp, softmax


def merge(
    outputs: "Float[Array, 'parts *b i e']", lses: "Float[Array, 'parts *b i']"
) -> "tuple[Float[Array, '*b i e'], Float[Array, '*b i']]":
    """Return output and lse of attention over all keys from those over each part.   Book: {eq}`split-softmax`.

    Every key is in one part; a sink counts in one part alone. A part without a visible key has output 0 and lse −inf.
    """
    outputs, lses = (np.asarray(x) for x in (outputs, lses))
    if outputs.shape[:-1] != lses.shape:
        raise ValueError(f"lses has shape {lses.shape}: expected {outputs.shape[:-1]}, one for each row of outputs")
    outputs, lses = shapes.float64("outputs", outputs), np.moveaxis(shapes.float64("lses", lses), 0, -1)
    return np.einsum("...s,s...e->...e", softmax(lses), outputs), log_sum_exp(lses)
