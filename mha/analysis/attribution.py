"""Which tokens, and which weights of which heads, move what a model says: by gradients, and by lengths of values.

A score is a function of the model's output that returns one number for each sample, (batch,).
"""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from mha.analysis.cores import attention_layers, wrapped_cores
from mha.integers import count
from mha.models.probe import stacked
from mha.nn.dot_product import attention, attention_weights

__all__ = [
    "IntegratedGradients",
    "gradient_times_input",
    "gradient_times_weights",
    "integrated_gradients",
    "of_embeddings",
    "value_norms",
]


class IntegratedGradients(NamedTuple):
    """What each token adds to the score, and how far the sum is from what it should be."""

    attribution: torch.Tensor  # (batch, length)
    error: torch.Tensor  # (batch,): Σ attribution − (score of the input − score of the baseline)


def of_embeddings(model, tokens, score):
    """Return the function of embeddings (batch, length, d_model) that is score(model(tokens)) with them in place.

    `model.embed(tokens)` is where it says what the model says. What else a model adds, positions and segments, stays.
    """

    def function(x):
        with _embedding(model, x):
            return score(model(tokens))

    return function


@contextmanager
def _embedding(model, x):
    hook = model.embed.register_forward_hook(lambda part, given, output: x)
    try:
        yield
    finally:
        hook.remove()


def gradient_times_input(function, x: "Float[Tensor, 'b n d']") -> "Float[Tensor, 'b n']":
    """Return x · ∂f/∂x, summed over columns: what each token adds if f is linear.   Book: {eq}`gradient-times-input`

    `function` maps (batch, length, width) to one number a sample: see `of_embeddings`. Shrikumar et al. (2016).
    """
    return (x * _gradient(function, x)[0]).sum(-1).detach()


def integrated_gradients(function, x: "Float[Tensor, 'b n d']", *, baseline=None, steps=32) -> IntegratedGradients:
    """Return (x − x₀) times the mean gradient between x₀ and x.   Book: {eq}`integrated-gradients`

    `baseline` is x₀, zeros unless given. The attributions of a sample add up to f(x) − f(x₀), but for the `error` of
    the integral: it is taken by Gauss's rule, exact where f is a polynomial of degree 2·`steps` along the way.
    Sundararajan et al. (2017).
    """
    steps = count("steps", steps, least=1)
    start = torch.zeros_like(x) if baseline is None else torch.as_tensor(baseline, dtype=x.dtype).expand_as(x)
    places, shares = np.polynomial.legendre.leggauss(steps)
    mean = torch.zeros_like(x)
    for place, share in zip((1 + places) / 2, shares / 2, strict=True):
        mean += share * _gradient(function, start + place * (x - start))[0]
    with torch.no_grad():
        attribution = ((x - start) * mean).sum(-1)
        rise = function(x) - function(start)
    return IntegratedGradients(attribution.detach(), attribution.detach().sum(-1) - rise)


def _gradient(function, x):
    """Return the gradient of each sample's number, and the numbers."""
    x = x.detach().requires_grad_()
    found = function(x)
    if found.shape != x.shape[:1]:
        raise ValueError(f"the score has shape {tuple(found.shape)}: expected ({x.shape[0]},), one number a sample")
    return torch.autograd.grad(found.sum(), x)[0], found.detach()


def gradient_times_weights(model, tokens, score) -> "Float[Tensor, 'L b h i j']":
    """Return A · ∂score/∂A for the weights A of every head.   Book: {eq}`gradient-times-weights`

    What the score would lose, to first order, if a weight were taken out and the others left as they are: positive
    where a weight speaks for it. The model is to be in evaluation mode. Hao et al. (2021), Chefer et al. (2021).
    """
    seen = []

    def explicit(name, layer):
        if layer.core is not attention:
            raise ValueError(
                f"{name!r} has another core than mha.nn.attention: expected that one, and no block of capture or "
                "without_heads around"
            )

        def core(q, k, v, *, dropout=None, **options):
            if dropout is not None:
                raise ValueError(f"{name!r} drops weights: expected a model in evaluation mode, model.eval()")
            weights = attention_weights(q, k, **options)
            seen.append(weights)
            return weights @ v.repeat_interleave(weights.shape[-3] // v.shape[-3], dim=-3)

        return core

    with torch.enable_grad(), wrapped_cores(attention_layers(model, "it has no weights"), explicit):
        total = score(model(tokens)).sum()
    gradients = torch.autograd.grad(total, seen)
    return stacked((weights * slope).detach() for weights, slope in zip(seen, gradients, strict=True))


def value_norms(call) -> "Float[Tensor, 'b h i j']":
    """Return ‖A[i, j] · v_j W_O‖: how long each part of what a head writes is.   Book: {eq}`value-norms`

    `call` is one call of a layer that `capture` has recorded. A weight on a value of length zero moves nothing.
    Kobayashi et al. (2020).
    """
    layer, heads = call.layer, call.layer.num_heads
    if layer.gate_proj is not None:
        raise ValueError(f"{call.name!r} has a gate, which changes what is written at each query: expected none")
    values = call.v.repeat_interleave(heads // call.v.shape[-3], dim=-3)
    maps = layer.out_proj.weight.unflatten(1, (heads, -1))  # (d_model, heads, d_head)
    lengths = torch.einsum("bhjd,mhd->bhjm", values, maps).norm(dim=-1)
    return call.weights * lengths[..., None, :]
