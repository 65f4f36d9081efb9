"""Which keys count, where all queries see the same."""

from mha.nn.visible import visible

__all__ = ["hidden_as_zeros", "visible_keys"]


def visible_keys(asked, device):
    """Return what the mask of a call shows: booleans that broadcast to (…, heads, j, 1); None where that is all."""
    see = visible(asked.of_keys(), device)
    return None if see is None else see.mT


def hidden_as_zeros(shown, *rows):
    """Return rows (…, heads, j, width) with zeros for those that are not shown, whatever they hold."""
    return rows if shown is None else tuple(x.masked_fill(~shown, 0.0) for x in rows)
