"""Which heads a layer has, and which key head each reads: taken out, reordered and pooled in place, and put back.

A change keeps what was there before, so that undoing it brings back the very parameters. New ones take the place of the
old: make optimizers anew, for theirs still hold the old ones.
"""

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import nn

from mha import shapes
from mha.nn.schemes import SchemeHeads
from mha.nn.strips import of_heads

__all__ = ["Change", "Surgery", "kept_heads", "key_heads_changed", "pooled_key_heads", "regular"]


class Change(NamedTuple):
    """What a part was called, before and after."""

    owner: Any
    name: str
    before: Any
    after: Any

    def stands(self):
        """Tell whether the part is as this change has left it: the same parameter, of the type and on the device."""
        now = getattr(self.owner, self.name)
        if isinstance(self.after, torch.Tensor):
            return now is self.after and (now.dtype, now.device) == (self.before.dtype, self.before.device)
        same = isinstance(self.after, tuple | nn.Module)  # the ids of every surgery are a tuple of its own
        return now is self.after if same else now == self.after


class Surgery:
    """What was changed in a model, and the way back."""

    def __init__(self, changes):
        self.changes = tuple(changes)
        self.undone = False
        twice = Counter((id(change.owner), change.name) for change in self.changes)
        for change in self.changes:
            if twice[id(change.owner), change.name] > 1:
                raise ValueError(
                    f"two layers share a {type(change.owner).__name__} whose {change.name} would change: expected one "
                    "of their own for each"
                )

    def apply(self):
        """Make the changes and return the surgery."""
        for change in self.changes:
            setattr(change.owner, change.name, change.after)
        return self

    def undo(self):
        """Put back what was there before: the same parameters, with the bits that they had.

        What was learned since is left with the parameters that go, and stays in those that were not replaced, such as
        the bias of `out_proj`. Raises ValueError if this was undone already, or if something has changed the same
        layers since, another surgery or a conversion: undo that first.
        """
        if self.undone:
            raise ValueError("this surgery is undone already: expected one that stands")
        for change in self.changes:
            if not change.stands():
                owner = type(change.owner).__name__
                raise ValueError(
                    f"{change.name} of a {owner} was replaced or converted after this surgery: undo the later change "
                    "first"
                )
        for change in reversed(self.changes):
            setattr(change.owner, change.name, change.before)
        self.undone = True


def regular(num_heads, num_kv_heads):
    """Return the key head of each query head where every key head serves as many neighbours."""
    return tuple(head * num_kv_heads // num_heads for head in range(num_heads))


def kept_heads(layer, heads, *, tied=False):
    """Return the changes that leave a layer these heads, by their numbers now, in this order.

    Key heads that nobody reads any more go too; the others stand in the order in which they are first read. `tied`
    says that other layers share the position scheme, so that its parameters stay whole.
    """
    heads, width = list(heads), layer.d_head
    _check_parts(layer)
    read = [layer.key_heads[head] for head in heads]
    kept = list(dict.fromkeys(read))
    changes = []
    if heads != list(range(layer.num_heads)):
        for linear in filter(None, (layer.q_proj, layer.gate_proj)):
            changes += _rows(linear, heads, width)
        changes.append(_changed(layer.out_proj, "weight", of_heads(layer.out_proj.weight, heads, width, dim=1)))
        changes.append(_changed(layer.out_proj, "in_features", len(heads) * width))
        if layer.sinks is not None:
            changes.append(_changed(layer, "sinks", of_heads(layer.sinks, heads)))
        changes += _scheme(layer, heads, tied) + _core(layer, heads)
        changes.append(_changed(layer, "num_heads", len(heads)))
    if kept != list(range(layer.num_kv_heads)):
        changes += [change for linear in (layer.k_proj, layer.v_proj) for change in _rows(linear, kept, width)]
        changes.append(_changed(layer, "num_kv_heads", len(kept)))
    return [*changes, *_named(layer, heads, [kept.index(head) for head in read])]


def pooled_key_heads(layer, num_kv_heads):
    """Return the changes that let neighbouring key heads become one, the mean of them."""
    wording = "num_kv_heads is {} and the module has {}"
    shapes.check_groups(layer.num_kv_heads, num_kv_heads, wording=wording)
    size = layer.num_kv_heads // num_kv_heads
    key_heads = [head // size for head in layer.key_heads]
    return key_heads_changed(layer, lambda strips: strips.unflatten(0, (num_kv_heads, size)).mean(1), key_heads)


def key_heads_changed(layer, make, key_heads):
    """Return the changes that give a layer other key heads: `make` takes the strips (heads, width, …) to the new."""
    _check_parts(layer)
    changes, number = [], max(key_heads) + 1
    for linear in (layer.k_proj, layer.v_proj):
        for name in ("weight", "bias"):
            old = getattr(linear, name)
            if old is not None:
                strips = make(old.detach().unflatten(0, (layer.num_kv_heads, layer.d_head)))
                new = nn.Parameter(strips.flatten(0, 1), requires_grad=old.requires_grad)
                changes.append(_changed(linear, name, new))
        changes.append(_changed(linear, "out_features", number * layer.d_head))
    return [*changes, _changed(layer, "num_kv_heads", number), *_named(layer, range(layer.num_heads), key_heads)]


def _named(layer, heads, key_heads):
    """Return the changes that name the heads, and the key head that each reads."""
    key_heads, number = tuple(key_heads), max(key_heads) + 1
    plain = len(key_heads) % number == 0 and key_heads == regular(len(key_heads), number)
    return [
        _changed(layer, "head_ids", tuple([layer.head_ids[head] for head in heads])),
        _changed(layer, "reads", None if plain else key_heads),
    ]


def _changed(owner, name, after):
    return Change(owner, name, getattr(owner, name), after)


def _rows(linear, heads, width):
    """Return the changes that leave a linear layer the rows of these heads."""
    return [
        *(_changed(linear, name, of_heads(getattr(linear, name), heads, width)) for name in ("weight", "bias")),
        _changed(linear, "out_features", len(heads) * width),
    ]


def _check_parts(layer):
    """Raise where what a head has cannot be told from the rest."""
    for name in ("q_proj", "k_proj", "v_proj", "out_proj", "gate_proj"):
        part = getattr(layer, name)
        if part is not None and (type(part) is not nn.Linear or not {"weight", "bias"} <= part._parameters.keys()):
            made = "" if type(part) is not nn.Linear else " that makes its weights from others"
            raise TypeError(
                f"{name} is a {type(part).__name__}{made}: expected a torch.nn.Linear, whose rows can be taken"
            )


def _core(layer, heads):
    """Return the change of a core that holds something of each head, if it does."""
    core = layer._modules.get("core", layer.core)  # the Module itself, where something stands in front of it
    if hasattr(core, "of_heads"):
        made = core.of_heads(heads)
        if made is not core and layer.core is not core:
            raise ValueError(
                f"core is a {type(core).__name__} behind a wrapper: expected no block of capture or without_heads "
                "around a change of what it holds of each head"
            )
        return [] if made is core else [_changed(layer, "core", made)]
    if isinstance(core, nn.Module) or hasattr(core, "num_heads"):
        raise TypeError(
            f"core is a {type(core).__name__}, which may hold something of each head: expected a function, or a core "
            "with of_heads(heads), the core of these heads alone"
        )
    return []


def _scheme(layer, heads, tied):
    """Return the changes of a position scheme that adds to the scores: its tables are cut, or read in part."""
    scheme, part = layer.position, layer.scheme_heads
    if not (hasattr(scheme, "bias") or hasattr(scheme, "content_bias")):
        return []
    made = scheme.of_heads(heads) if part is None and hasattr(scheme, "of_heads") else None
    if made is scheme:
        return []
    if made is not None and not (tied and isinstance(scheme, nn.Module)):
        for name in ("q_proj", "k_proj"):
            if getattr(scheme, name, None) is getattr(layer, name):
                setattr(made, name, getattr(layer, name))  # DeBERTa-v3: the layer's own, cut with it
        return [_changed(layer, "position", made)]
    part = SchemeHeads(layer.num_heads, tuple(range(layer.num_heads))) if part is None else part
    return [_changed(layer, "scheme_heads", SchemeHeads(part.total, tuple(part.heads[head] for head in heads)))]
