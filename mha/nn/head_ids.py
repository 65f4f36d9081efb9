"""The heads that a layer still has, under the numbers that they had at first, and the key head that each reads.

A state holds both beside the weights, in a tensor (2, heads), once they are not what the layer was built with; a third
row says which heads of its position scheme the layer reads, if it reads that in part.
"""

import torch

from mha.nn.dot_product import attention
from mha.nn.surgery import Surgery, kept_heads, key_heads_changed, regular

__all__ = ["load", "read", "reading_core", "regular", "said", "save"]

KEY = "heads"  # no name of the layer's own: torch.func.functional_call takes states, too


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
        part = () if layer.scheme_heads is None else (layer.scheme_heads.heads,)
        state[prefix + KEY] = torch.tensor((layer.head_ids, layer.key_heads, *part), device="cpu")


def load(layer, state, prefix, missing, errors):
    """Make the layer one of the heads that a state has; say so where it cannot be."""
    stored = state.pop(prefix + KEY, None)
    if stored is None:
        if not _as_built(layer):
            missing.append(prefix + KEY)
        return
    ids, key_heads, *part = map(tuple, stored.tolist())
    if (ids, key_heads) == (layer.head_ids, layer.key_heads):
        return
    number = max(key_heads) + 1
    read = {key_head for head, key_head in zip(layer.head_ids, layer.key_heads, strict=True) if head in ids}
    if not set(ids) <= set(layer.head_ids) or number > len(read):
        has = f"{layer.head_ids} over {layer.num_kv_heads}"
        errors.append(f"{prefix}{KEY}: the state has heads {ids} over {number} key heads and the layer has {has}")
        return
    Surgery(kept_heads(layer, [layer.head_ids.index(one) for one in ids], tied=bool(part))).apply()
    if part and layer.scheme_heads is not None:
        layer.scheme_heads = layer.scheme_heads._replace(heads=part[0])
    if layer.key_heads != key_heads:
        Surgery(key_heads_changed(layer, lambda strips: strips[:number], key_heads)).apply()


def said(layer):
    """Return what a layer's description says of them."""
    given = [] if _as_built(layer) else [f"head_ids={layer.head_ids}"]
    return given if layer.reads is None else [*given, f"key_heads={layer.reads}"]


def _as_built(layer):
    num_heads, num_kv_heads = layer.built_with
    return layer.head_ids == tuple(range(num_heads)) and layer.key_heads == regular(num_heads, num_kv_heads)
