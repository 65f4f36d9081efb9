"""Take heads out of a model for good, reorder them and pool their keys: a smaller layer, not a silenced one.

A head keeps the number that it was built with, whatever goes before it. Each function changes the model in place and
returns a `Surgery`, whose `undo()` puts the very parameters back. The parameters that it makes are new ones: make
optimizers afterwards, and caches, whose rows are of the key heads as they were.
"""

import copy
from collections import Counter
from itertools import chain

from mha.analysis.ablation import chosen_heads, listed, of
from mha.analysis.cores import attention_layers
from mha.integers import count, integers
from mha.nn.heads import MultiHeadAttention
from mha.nn.surgery import Surgery, kept_heads, pooled_key_heads

__all__ = ["Surgery", "merge_heads", "permute_heads", "remove_heads", "split_layer"]


def remove_heads(model, heads) -> Surgery:
    """Remove heads of `model`, in place: the outputs of `without_heads`, with less work.   Book: {eq}`pruned-heads`

    `heads` holds pairs (layer, head) as in `without_heads`; of one `MultiHeadAttention`, numbers alone will do. A head
    is the number that it was built with: ::

        first = remove_heads(model, {(18, 6), ("blocks.17.attention", 3)})
        second = remove_heads(model, {(18, 7)})  # the head that was 7 before, too
        second.undo()
        first.undo()

    What belongs to a head goes with it: rows of `q_proj`, columns of `out_proj`, rows of `gate_proj`, the sink, what a
    position scheme holds for it, and the key head that no query head reads any more. A scheme with parameters that
    layers of `model` share stays whole, and each layer reads its heads of it; of a layer alone, it is not known who
    shares it, and the layer gets tables of its own. The bias of `out_proj` stays.

    Raises ValueError for a head that is gone, and for all heads of a layer; TypeError where a core or a projection
    does not say what belongs to a head. Nothing is changed then. Michel et al. (2019).
    """
    layers = attention_layers(model, "it has no heads")
    changes = []
    for name, numbers in chosen_heads(layers, _pairs(model, heads)).items():
        layer = layers[name]
        left = [number for number, one in enumerate(layer.head_ids) if one not in numbers]
        if not left:
            raise ValueError(
                f"heads holds all {layer.num_heads} heads{of(name)}: expected one to be left; without_heads silences "
                "all of them"
            )
        changes += kept_heads(layer, left, tied=_shared(layer, layers))
    _check_own(changes, layers.values())
    return Surgery(changes).apply()


def permute_heads(layer, order) -> Surgery:
    """Put the heads of a layer into another order, in place: the function stays the same.

    `order` holds the number of every head that is left, as it was built. Key heads follow, in the order in which they
    are first read; heads that read one key head need not stay neighbours.
    """
    _check_layer(layer)
    order = [int(number) for number in integers("order", order, "the numbers of all heads")]
    if sorted(order) != sorted(layer.head_ids):
        raise ValueError(f"order is {order}: expected each of {layer.head_ids} once")
    return Surgery(kept_heads(layer, [layer.head_ids.index(number) for number in order])).apply()


def merge_heads(model, num_kv_heads) -> Surgery:
    """Let neighbouring key heads become one, the mean of them, in place and in all layers (Ainslie et al. 2023).

    `model` is a layer or has some. Exact where the heads of a group were equal; anything else changes the function,
    and training is to mend it. Neighbours are those of `key_heads`; `permute_heads` brings together what is alike.
    """
    count("num_kv_heads", num_kv_heads, least=1)
    layers = attention_layers(model, "it has no heads").values()
    return Surgery(change for layer in layers for change in pooled_key_heads(layer, num_kv_heads)).apply()


def split_layer(layer, groups) -> list[MultiHeadAttention]:
    """Return layers that add up to this one, each with a group of its heads; the first has the bias of the output.

    `groups` hold every head that is left once, by the numbers that they were built with. Exact, for a layer is the sum
    of what its heads write. A head alone is exactly two of half the width only along its values: the weights need the
    whole of q and k.
    """
    _check_layer(layer)
    groups = [[int(head) for head in integers("groups", group, "numbers of heads")] for group in _lists(groups)]
    everyone = sorted(chain.from_iterable(groups))
    if everyone != sorted(layer.head_ids) or not all(groups):
        raise ValueError(f"groups hold {everyone}: expected each of {layer.head_ids} once")
    parts: list[MultiHeadAttention] = []
    for group in groups:
        part = copy.deepcopy(layer)
        Surgery(kept_heads(part, [part.head_ids.index(head) for head in sorted(group)])).apply()
        if parts and part.out_proj.bias is not None:
            part.out_proj.bias.data.zero_()
        parts.append(part)
    return parts


def _pairs(model, heads):
    """Return pairs (layer, head); of a layer, numbers stand for its heads."""
    heads = listed(heads)
    if isinstance(model, MultiHeadAttention):
        return [head if isinstance(head, tuple) else (0, head) for head in heads]
    return heads


def _shared(layer, layers):
    """Tell whether another layer has the same position scheme."""
    return sum(other.position is layer.position for other in layers.values()) > 1


def _check_own(changes, layers):
    """Raise if a part that would change is another layer's too."""
    owners = Counter(id(part) for layer in layers for part in layer.children())
    for owner in (change.owner for change in changes):
        if owners[id(owner)] > 1:
            raise ValueError(
                f"two layers share a {type(owner).__name__} whose weight would change: expected one of their own for "
                "each"
            )


def _lists(groups):
    """Return groups of any kind as lists."""
    try:
        return [list(group) for group in groups]
    except TypeError:
        raise TypeError(f"groups is {groups!r}: expected groups of numbers of heads, as in [{{0, 2}}, {{1}}]") from None


def _check_layer(layer):
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(f"layer is a {type(layer).__name__}: expected a MultiHeadAttention")
