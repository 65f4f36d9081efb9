"""The backward pass of attention by hand, from the output back to the inputs."""

from typing import NamedTuple

import numpy as np

from mha import shapes
from mha.reference.dot_product import is_visible, masked_scores, mix, repeat_heads, softmax, with_sinks


class Gradients(NamedTuple):
    """The gradients of one call, each of its argument's shape; None for an argument that was not given."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    bias: np.ndarray | None
    sinks: np.ndarray | None


def softmax_jacobian(weights: "Float[Array, '*b j']") -> "Float[Array, '*b j j']":
    """Return the derivative of each weight of a row by each score of that row.   Book: {eq}`softmax-jacobian`.

    Entry (j, l) is ∂ weight j / ∂ score l. The matrix is symmetric and its rows sum to 0.
    """
    weights = shapes.float64("weights", weights)
    shapes.check_rank("weights", weights, ("length",))
    return weights[..., None] * (np.eye(weights.shape[-1]) - weights[..., None, :])


def softmax_backward(weights: "Float[Array, '*b j']", d_weights: "Float[Array, '*b j']") -> "Float[Array, '*b j']":
    """Send the gradient of each row of weights back to its scores.   Book: {eq}`softmax-backward`.

    The Jacobian of the row times `d_weights`, in O(n): each entry's distance from the row's mean, times its weight.
    """
    weights, d_weights = shapes.float64("weights", weights), shapes.float64("d_weights", d_weights)
    shapes.check_shape("d_weights", d_weights, weights.shape)
    return weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True))


def attention_backward(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    d_output: "Float[Array, '*b h i e']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> Gradients:
    """Return the gradients of sum(attention(…) · d_output).   Book: {eq}`attention-backward`.

    A query that sees no key, and a key that no query sees, get exactly 0.
    """
    options = {"mask": mask, "scale": scale, "softcap": softcap, "q_start": q_start, "dropout": dropout}
    call = shapes.check(q, k, v, bias=bias, sinks=sinks, **options)
    d_output = shapes.float64("d_output", d_output)
    shapes.check_shape("d_output", d_output, (*call.weights_shape[:-1], v.shape[-1]))
    scores = masked_scores(call, q, k, bias)
    weights = softmax(with_sinks(scores, sinks))
    see, factors = is_visible(scores), 1.0 if call.dropout is None else call.dropout.factors(call.weights_shape)
    all_q, all_k, all_v = np.asarray(q, np.float64), repeat_heads(k, call), repeat_heads(v, call)

    d_v = mix(_transposed(weights[..., : call.n_k] * factors), d_output, _transposed(see))
    with np.errstate(invalid="ignore", over="ignore"):  # a hidden value may hold anything
        d_weights = np.where(see, np.einsum("...ie,...je->...ij", d_output, all_v) * factors, 0.0)
    d_scores = softmax_backward(weights, with_sinks(d_weights, None if sinks is None else np.zeros_like(sinks)))
    d_scores, d_sinks = np.where(see, d_scores[..., : call.n_k], 0.0), d_scores[..., call.n_k :]
    d_dots = d_scores * _cap_slope(call, q, k, see) * call.scale
    d_q = mix(d_dots, all_k, see)
    d_k = mix(_transposed(d_dots), all_q, _transposed(see))

    return Gradients(
        q=summed_to(q.shape, d_q),
        k=summed_to(k.shape, sum_groups(d_k, call)),
        v=summed_to(v.shape, sum_groups(d_v, call)),
        bias=None if bias is None else summed_to(bias.shape, d_scores),
        sinks=None if sinks is None else summed_to((call.num_heads, 1, 1), d_sinks)[:, 0, 0],
    )


def _cap_slope(call, q, k, see):
    """Return the derivative of softcap · tanh(score / softcap)."""
    if call.softcap is None:
        return 1.0
    capped = masked_scores(call._replace(mask=None), q, k, None) / call.softcap
    return 1.0 - np.where(see, capped, 0.0) ** 2


def sum_groups(x, call):
    """Add up the gradients of the query heads that read the same key head."""
    groups = x.reshape(*x.shape[:-3], call.num_kv_heads, call.num_heads // call.num_kv_heads, *x.shape[-2:])
    return groups.sum(-3)


def summed_to(shape, x):
    """Add up the gradient over the axes along which the argument was broadcast."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size != x.shape[axis])
    return x.sum(repeated, keepdims=True)


def _transposed(x):
    return np.swapaxes(x, -1, -2)
