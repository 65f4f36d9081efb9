"""All cases, by the rule that they hold up."""

from mha.conformance.case import Case
from mha.conformance.cases import (
    causal,
    distances,
    empty_rows,
    gradients,
    grouped,
    hidden_numbers,
    lengths,
    linear,
    masks,
    positions,
    precision,
    relations,
    scores,
    sinks,
    weights,
    windows,
)

GROUPS = {
    "masks": masks.CASES,
    "empty-rows": empty_rows.CASES,
    "hidden-numbers": hidden_numbers.CASES,
    "causal": causal.CASES,
    "windows": windows.CASES,
    "grouped": grouped.CASES,
    "scores": scores.CASES,
    "sinks": sinks.CASES,
    "lengths": lengths.CASES,
    "precision": precision.CASES,
    "weights": weights.CASES,
    "positions": positions.CASES,
    "distances": distances.CASES,
    "linear": linear.CASES,
    "gradients": gradients.CASES,
    "relations": relations.CASES,
}
ALL = {case.name: case for cases in GROUPS.values() for case in cases}


def chosen(names=None):
    """Return the cases of these names, or groups; a `Case` stands for itself; all if None is given."""
    if names is None:
        return list(ALL.values())
    found = []
    for name in [names] if isinstance(names, str) else names:
        if isinstance(name, Case):
            found.append(name)
        elif not isinstance(name, str):
            raise TypeError(f"cases holds a {type(name).__name__}: expected names, groups, or objects of Case")
        elif name in GROUPS:
            found.extend(GROUPS[name])
        elif name in ALL:
            found.append(ALL[name])
        else:
            raise ValueError(f"no case or group {name!r}: expected one of {', '.join([*GROUPS, *ALL])}")
    return found
