"""The heads that a layer still has, under the numbers that they had at first, and the key head that each reads.

A state holds both beside the weights, in a tensor (2, heads), once they are not what the layer was built with.
"""

import torch

from mha.nn.surgery import Surgery, kept_heads, key_heads_changed, regular

__all__ = ["load", "read", "reading_core", "regular", "said", "save"]

KEY = "head_ids"


def read(reads, *rows):
    """Return keys or values (…, g, n, d) as the core takes them where groups are unequal: (…, h, n, d)."""
    return tuple(_repeated(x, reads) for x in rows)


def reading_core(core, reads):
    """Return a core that takes keys and values as a cache holds them, one for each key head."""

    def attend(q, k, v, **options):
        return core(q, *read(reads, k, v), **options)

    attend.reads_places = getattr(core, "reads_places", False)
    return attend


def _repeated(x, key_heads):
    """Return the rows that each query head reads, in pieces that repeat: no index has to reach the device."""
    starts = [i for i, head in enumerate(key_heads) if i == 0 or head != key_heads[i - 1]]
    pieces = (
        x.narrow(-3, key_heads[start], 1).expand(*x.shape[:-3], end - start, *x.shape[-2:])
        for start, end in zip(starts, [*starts[1:], len(key_heads)], strict=True)
    )
    return torch.cat(tuple(pieces), -3)


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
