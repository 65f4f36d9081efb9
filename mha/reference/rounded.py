"""Attention whose stages are rounded as fewer bits would round them, to see which stage the error comes from."""

from typing import NamedTuple

import numpy as np

from mha import shapes
from mha.reference.dot_product import largest, repeat_heads
from mha.reference.precision import FLOAT32, Format, round_to


class Stages(NamedTuple):
    """The format of each stage. None leaves a stage in float64."""

    inputs: Format | None = None  # queries, keys and values, and the output
    scores: Format | None = None  # the scores, and the softmax with all of its steps
    weights: Format | None = None  # the weights as the second product reads them
    sums: Format | None = None  # the running sums of both products and of the softmax

    @classmethod
    def plain(cls, format: Format) -> "Stages":
        """Return the stages of three operations that each read and write `format` and add in 32 bits."""
        return cls(format, format, format, FLOAT32)

    @classmethod
    def mixed(cls, format: Format) -> "Stages":
        """Return the stages of a fused kernel: `format` for what is multiplied and for the output, else 32 bits."""
        return cls(format, FLOAT32, format, FLOAT32)


def rounded_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    stages: Stages,
    *,
    mask=None,
    scale=None,
    q_start=None,
    scale_first=False,
) -> "Float[Array, '*b h i e']":
    """Return what `attention` becomes when each stage is rounded to its format.

    `scale_first` multiplies the queries by the scale, not the products.
    What overflows becomes ∞, and then NaN.
    """
    arrays = {"q": q, "k": k, "v": v}
    q, k, v = (_rounded(shapes.float64(name, x), stages.inputs) for name, x in arrays.items())
    call = shapes.check(q, k, v, mask=mask, scale=scale, q_start=q_start)
    k, v, see = repeat_heads(k, call), repeat_heads(v, call), shapes.visible(call)
    before, after = (call.scale, 1.0) if scale_first else (1.0, call.scale)

    def kept(x):
        return _rounded(x, stages.scores)

    with np.errstate(invalid="ignore", over="ignore"):
        q = _rounded(before * q, stages.inputs)
        scores = kept(after * kept(_product(q, k.swapaxes(-1, -2), stages.sums)))
        scores = scores if see is None else np.where(see, scores, -np.inf)
        powers = kept(np.exp(kept(scores - largest(scores))))
        total = kept(_product(powers, np.ones((powers.shape[-1], 1)), stages.sums))
        weights = kept(powers / np.where(total == 0, 1.0, total))
        mixed_values = _product(_rounded(weights, stages.weights), v, stages.sums)
    return _rounded(mixed_values, stages.inputs)


def _product(a, b, format):
    """Multiply matrices term by term: every product is exact, every addition is rounded."""
    if format is None:
        return a @ b
    total = np.zeros(np.broadcast_shapes(a[..., :1].shape, b[..., :1, :].shape))
    for c in range(a.shape[-1]):
        total = round_to(total + a[..., c, None] * b[..., None, c, :], format)
    return total


def _rounded(x, format):
    return x if format is None else round_to(x, format)
