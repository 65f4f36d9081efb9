"""Take heads out of a model and see what it can no longer do."""

from collections.abc import Iterable, Mapping
from contextlib import contextmanager

import torch

from mha.analysis.cores import attention_layers, wrapped_cores
from mha.integers import integer

__all__ = ["without_heads"]


@contextmanager
def without_heads(model, heads):
    """Silence heads of `model` until the block ends: what they found counts as zero.   Book: {eq}`without-heads`.

    `heads` holds pairs (layer, head). A layer is its number among the attention layers of the model, in the order of
    `named_modules`, or its name: in an encoder–decoder, say which of its attentions is meant. A head is the number that
    it was built with, whatever `remove_heads` has taken out before it. ::

        with without_heads(model, {(18, 6), ("blocks.17.attention", 3)}):
            model(tokens)

    It is the same as setting the head's columns of `out_proj` to zero, with the weights left alone, but a NaN that
    the head found counts as zero, too; the bias of `out_proj` stays. Blocks nest, and the model is as before
    afterwards, whatever happens. Michel et al. (2019).
    """
    layers = attention_layers(model, "it has no heads")
    silent = chosen_heads(layers, heads)
    with wrapped_cores({name: layers[name] for name in silent}, lambda name, layer: _silencer(layer, silent[name])):
        yield model


def chosen_heads(layers, heads):
    """Return {name: numbers of heads} of pairs (layer, head); raise for one that is not there."""
    chosen = {}
    for layer, head in _pairs(heads):
        name = _name(layers, layer)
        chosen.setdefault(name, set()).add(_head(layers[name], name, head))
    return chosen


def listed(heads):
    """Return the heads as a list, or raise."""
    if not isinstance(heads, Iterable) or isinstance(heads, Mapping | str):
        raise TypeError(f"heads is {heads!r}: expected pairs (layer, head), as in {{(18, 6)}}")
    return list(heads)


def _pairs(heads):
    pairs = listed(heads)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"heads holds {pair!r}: expected pairs (layer, head), as in {{(18, 6)}}")
    return pairs


def _name(layers, layer):
    if isinstance(layer, str):
        if layer not in layers:
            raise ValueError(f"heads names the layer {layer!r}: expected one of {list(layers)}")
        return layer
    number = integer("the layer in heads", layer)
    if not 0 <= number < len(layers):
        raise ValueError(f"heads names the layer {number}: expected 0 … {len(layers) - 1}, or a name")
    return list(layers)[number]


def _head(layer, name, head):
    number = integer("the head in heads", head)
    if number in layer.head_ids:
        return number
    if 0 <= number < layer.built_with[0]:
        raise ValueError(f"heads names head {number}{of(name)}, which is gone: expected one of {layer.head_ids}")
    raise ValueError(f"heads names head {number}{of(name)}: expected 0 … {layer.built_with[0] - 1}")


def of(name):
    """Return the words that say whose head is meant: none for a layer alone, which has no name."""
    return f" of {name!r}" if name else ""


def _silencer(layer, numbers):
    """Return the core of the layer with zeros for what these heads found."""
    core = layer.core

    def silence(q, k, v, **options):
        found = core(q, k, v, **options)
        silent = [[[head in numbers]] for head in layer.head_ids]
        return found.masked_fill(torch.tensor(silent, device=found.device), 0)  # a NaN of theirs, too

    return silence
