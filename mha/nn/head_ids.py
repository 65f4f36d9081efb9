"""The heads that a layer still has, under the numbers that they had at first, and the key head that each reads.

A state holds both beside the weights, in a tensor (2, heads), once they are not what the layer was built with.
"""

import torch

from mha.nn.dot_product import attention
from mha.nn.surgery import Surgery, kept_heads, key_heads_changed, regular

__all__ = ["load", "read", "reading_core", "regular", "said", "save"]

KEY = "head_ids"


def read(reads, *rows):
    """Return keys or values (…, g, n, d) as the core takes them where groups are unequal: (…, h, n, d)."""
    return tuple(_picked(x, reads) for x in rows)


def reading_core(core, reads):
    """Return a core that takes keys and values as a cache holds them, one for each key head.

    One query a sample takes less room than the keys of a cache: it is the queries that are repeated then, until groups
    are of one size.
    """

    def attend(q, k, v, *, mask=None, bias=None, sinks=None, dropout=None, **options):
        if core is attention and q.shape[-2] == 1 and mask is bias is sinks is dropout is None:
            filled, places = _filled(reads)
            return _picked(attention(_picked(q, filled), k, v, **options), places)
        return core(q, *read(reads, k, v), mask=mask, bias=bias, sinks=sinks, dropout=dropout, **options)

    attend.reads_places = getattr(core, "reads_places", False)
    return attend


def _filled(reads):
    """Return query heads, some of them more than once, in groups of one size, and the place of each head there."""
    groups = [[head for head, read in enumerate(reads) if read == one] for one in range(max(reads) + 1)]
    size = max(map(len, groups))
    filled = [head for group in groups for head in group + group[-1:] * (size - len(group))]
    return filled, [filled.index(head) for head in range(len(reads))]


def _picked(x, heads):
    """Return these heads of x (…, h, n, d), in pieces of neighbours: no index has to reach the device."""
    starts = [i for i, head in enumerate(heads) if i == 0 or head != heads[i - 1] + 1]
    ends = [*starts[1:], len(heads)]
    pieces = [x.narrow(-3, heads[start], end - start) for start, end in zip(starts, ends, strict=True)]
    return torch.cat(pieces, -3)


def save(layer, state, prefix):
    """Put the ids into a state, if heads were taken out, moved or pooled."""
    if not _as_built(layer):
        state[prefix + KEY] = torch.tensor((layer.head_ids, layer.key_heads))


def load(layer, state, prefix, missing, errors):
    """Make the layer one of the heads that a state has; say so where it cannot be."""
    stored = state.pop(prefix + KEY, None)
    if stored is None:
        if not _as_built(layer):
            missing.append(prefix + KEY)
        return
    ids, key_heads = map(tuple, stored.tolist())
    if (ids, key_heads) == (layer.head_ids, layer.key_heads):
        return
    number = max(key_heads) + 1
    if not set(ids) <= set(layer.head_ids) or number > layer.num_kv_heads:
        has = f"{layer.head_ids} over {layer.num_kv_heads}"
        errors.append(f"{prefix}{KEY}: the state has heads {ids} over {number} key heads and the layer has {has}")
        return
    tied = layer.position is not None and _fits(layer.position, state, prefix + "position.")
    Surgery(kept_heads(layer, [layer.head_ids.index(one) for one in ids], tied=tied)).apply()
    if layer.key_heads != key_heads:
        Surgery(key_heads_changed(layer, lambda strips: strips[:number], key_heads)).apply()


def said(layer):
    """Return what a layer's description says of them."""
    given = [] if _as_built(layer) else [f"head_ids={layer.head_ids}"]
    return given if layer.reads is None else [*given, f"key_heads={layer.reads}"]


def _as_built(layer):
    num_heads, num_kv_heads = layer.built_with
    return layer.head_ids == tuple(range(num_heads)) and layer.key_heads == regular(num_heads, num_kv_heads)


def _fits(scheme, state, prefix):
    """Tell whether a state has the tables of a scheme at their whole size, as where layers share it."""
    shapes = {name: x.shape for name, x in getattr(scheme, "state_dict", dict)().items()}
    return all(state[prefix + name].shape == shape for name, shape in shapes.items() if prefix + name in state)
