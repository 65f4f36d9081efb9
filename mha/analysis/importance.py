"""How much a model needs each of its heads, by several scores: a higher score says that the head matters more.

A score of a model is an array (layers, heads): layers in the order of `named_modules`, heads by the numbers that they
had at first, NaN where there is no such head or no longer. `pruning_order` turns a score into the order in which heads
go.
"""

import math

import numpy as np
import torch

from mha import masks
from mha.analysis.ablation import without_heads
from mha.analysis.cores import attention_layers, wrapped_cores
from mha.analysis.patterns import row_entropies
from mha.integers import count

__all__ = [
    "ablation_effects", "entropy_scores", "mask_gradients", "normalised_by_layer", "pruning_order", "random_scores",
    "weight_norms",
]  # fmt: skip


def ablation_effects(model, loss, heads=None) -> np.ndarray:
    """Return how much the loss grows without each head alone: positive if the head helps.   Book: {eq}`ablation-effect`

    `loss` is called with the model and returns a number; `heads` are the pairs (layer, head) to try, all by default,
    the others are NaN. One pass for each head, and one of the whole model. Michel et al. (2019).
    """
    effects = np.full(_shape(model), np.nan)
    pairs = _heads(model) if heads is None else list(heads)
    names = list(attention_layers(model, "it has no heads"))
    with torch.no_grad():
        whole = float(loss(model))
        for layer, head in pairs:
            row = names.index(layer) if layer in names else layer
            with without_heads(model, {(layer, head)}):
                effects[row, head] = float(loss(model)) - whole
    return effects


def mask_gradients(model, losses) -> np.ndarray:
    """Return the mean size of ∂loss / ∂ξ, ξ a factor 1 before what a head found.   Book: {eq}`mask-gradient`

    `losses` is called with the model, runs it once on a batch and returns one loss an example, (batch,): each example
    has factors of its own, and its slope counts by size, so that examples do not cancel. One backward pass for all
    heads. Michel et al. (2019), equation 2; widely copied code takes the absolute value at each token instead.
    """
    factors: dict[str, list] = {}
    layers = attention_layers(model, "it has no heads")
    with torch.enable_grad(), wrapped_cores(layers, lambda name, layer: _factored(layer, factors.setdefault(name, []))):
        each = losses(model)
    used = [factor for found in factors.values() for factor in found]
    _check_losses(each, used)
    slopes = iter(torch.autograd.grad(each, used, torch.ones_like(each), allow_unused=True, materialize_grads=True))
    scores = np.full(_shape(model), np.nan)
    for row, (name, layer) in zip(scores, layers.items(), strict=True):
        by_example = sum((next(slopes) for _ in factors[name]), torch.zeros(len(each), layer.num_heads, 1, 1))
        row[list(layer.head_ids)] = by_example.abs().double().mean(0).flatten().cpu().numpy()
    return scores


def _factored(layer, factors):
    """Return the core of the layer with a factor 1 before each head of each example, and keep the factors."""
    core = layer.core

    def factored(q, k, v, **options):
        found = core(q, k, v, **options)
        factor = found.new_ones(*found.shape[:-2], 1, 1, requires_grad=True)
        factors.append(factor)
        return found * factor

    return factored


def _check_losses(each, used):
    if not isinstance(each, torch.Tensor) or each.ndim != 1 or each.grad_fn is None:
        shape = tuple(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__
        raise ValueError(f"losses returned {shape}: expected a tensor (batch,) with a gradient, one loss an example")
    for factor in used:
        if factor.shape[:-3] != each.shape:
            raise ValueError(
                f"losses returned {len(each)} losses of a pass over {tuple(factor.shape[:-3])} examples: "
                "expected one loss an example of the only pass"
            )


def entropy_scores(weights: "Float[Array, '*b h i j']", mask=None) -> "Float[Array, '*b h']":
    """Return the mean of ln(visible keys) − H over the rows that see two keys or more.   Book: {eq}`entropy-score`

    0 is a head that spreads its weights evenly, the largest score one that looks at a single key. `mask` tells how many
    keys a row sees; without it all keys count, which moves the scores of causal heads by one number for all of them.
    """
    weights = np.asarray(weights, np.float64)
    entropies = row_entropies(weights)
    see = np.ones(weights.shape[-2:], bool) if mask is None else _visible(mask, weights)
    if (weights * ~see).any():
        raise ValueError("weights gives a part to keys that mask hides: expected the mask that the heads had")
    keys = see.sum(-1)
    choice = np.broadcast_to(keys > 1, entropies.shape)
    if not choice.any(-1).all():
        raise ValueError("mask leaves a head without a row that sees two keys: nothing can be told from its weights")
    return np.mean(np.log(np.maximum(keys, 1)) - entropies, axis=-1, where=choice)


def _visible(mask, weights):
    return np.asarray(masks.as_mask(mask).dense(*weights.shape[-2:]))


def weight_norms(model) -> np.ndarray:
    """Return ‖W_V W_O‖, the Frobenius norm of what a head can add to its layer.   Book: {eq}`weight-norm`

    The product is d_model × d_model of rank d_head, and the same however its two factors share a scale or a rotation;
    norms of W_V or W_O alone are not. Biases and gates do not count, nor the gain of a norm before the layer.
    """
    scores = np.full(_shape(model), np.nan)
    for row, layer in zip(scores, attention_layers(model, "it has no heads").values(), strict=True):
        w_v = layer.v_proj.weight.detach().double().unflatten(0, (-1, layer.d_head))  # (key heads, d_head, d_in)
        w_o = layer.out_proj.weight.detach().double().unflatten(1, (-1, layer.d_head))  # (d_model, heads, d_head)
        values = torch.einsum("gxm, gym -> gxy", w_v, w_v)[list(layer.key_heads)]  # small products are all it takes
        written = torch.einsum("mhx, mhy -> hxy", w_o, w_o)
        row[list(layer.head_ids)] = (values * written).sum((-1, -2)).sqrt().cpu().numpy()
    return scores


def random_scores(model, rng: np.random.Generator) -> np.ndarray:
    """Return scores that know nothing, even on [0, 1): what each other score has to beat."""
    scores = rng.random(_shape(model))
    known = np.zeros(scores.shape, bool)
    for layer, head in _heads(model):
        known[layer, head] = True
    return np.where(known, scores, np.nan)


def normalised_by_layer(scores: "Float[Array, 'layers h']") -> "Float[Array, 'layers h']":
    """Return the scores, those of each layer divided by their length √Σ s². Molchanov et al. (2017).

    Layers are then pruned alike, whatever the size of their scores; a layer of zeros stays as it is.
    """
    scores = np.asarray(scores, np.float64)
    length = np.sqrt(np.nansum(scores**2, axis=-1, keepdims=True))
    return scores / np.where(length == 0, 1.0, length)


def pruning_order(scores: "Float[Array, 'layers h']", *, spared: int = 1) -> list[tuple[int, int]]:
    """Return the heads (layer, head) from the least score on, without the best `spared` of each layer.

    A layer without any head cannot be removed like one head of many, so the best of each stays by default.
    """
    scores, spared = np.asarray(scores, np.float64), count("spared", spared)
    if scores.ndim != 2:
        raise ValueError(f"scores has shape {scores.shape}: expected (layers, heads)")
    order = [np.unravel_index(place, scores.shape) for place in np.argsort(scores, axis=None, kind="stable")]
    pairs = [(int(layer), int(head)) for layer, head in order if not math.isnan(scores[layer, head])]
    left = (~np.isnan(scores)).sum(-1)
    gone = []
    for layer, head in pairs:
        if left[layer] > spared:
            left[layer] -= 1
            gone.append((layer, head))
    return gone


def _shape(model):
    layers = attention_layers(model, "it has no heads").values()
    return len(layers), max(layer.built_with[0] for layer in layers)


def _heads(model):
    """Return the pairs (layer, head) of a model."""
    layers = attention_layers(model, "it has no heads").values()
    return [(number, head) for number, layer in enumerate(layers) for head in layer.head_ids]
