"""A mask as the source of one function, so that a compiler can build its rule into a kernel.

The text holds the structure alone: `(Causal(at, b, h, i, j) & Window(at, b, h, i, j, at(p[0], 0), at(p[0], 1)))`. The
numbers and the tables come as arguments, `p[0]` and `p[1:]`, so one compiled kernel serves every mask of that
structure. `at(table, index)` is the load of the compiler's language.
"""

import linecache
import re
from functools import cache
from typing import NamedTuple

import numpy as np

from mha.masks.arrays import in_numpy
from mha.masks.base import And, Mask, Not, Or
from mha.masks.heads import PerHead
from mha.masks.shifting import Shifted

__all__ = ["Source", "kind_of_mask", "rule_of", "source_of"]

WIDEST = 2**31  # what 32 bits hold, and how many entries they reach


class Source(NamedTuple):
    """The rule of a mask as text, and the arguments of that rule: its numbers, then its tables."""

    text: str
    p: tuple[np.ndarray, ...]


def source_of(mask):
    """Return the `Source` of a placed mask. Two masks of the same structure have the same text."""
    numbers: list[int] = []
    tables: list[np.ndarray] = []
    text = _text(mask, numbers, tables)
    sizes = np.array([table.size for table in tables], np.int64)
    return Source(text, (_narrow(np.array(numbers, np.int64), sizes), *tables))


@cache  # pure: the text is the whole rule
def rule_of(text, jit):
    """Return the function `rule(at, b, h, i, j, p)` of a source's text, which `jit` compiles.

    `jit` is triton.jit for a device. Triton's interpreter, NumPy and torch run the plain function: `jit` returns it.
    """
    name, lines = f"<mask {text}>", f"def rule(at, b, h, i, j, p):\n    return {text}\n"
    linecache.cache[name] = len(lines), None, lines.splitlines(keepends=True), name  # where a compiler reads source
    scope = {kind: jit(kind_of_mask(kind).rule) for kind in set(re.findall(r"(\w+)\(at, b", text))}
    exec(compile(lines, name, "exec"), scope)
    return jit(scope["rule"])


def _text(mask, numbers, tables, i="i", j="j"):
    def read(table, index):
        tables.append(_narrow(np.ascontiguousarray(in_numpy(table))))
        return f"at(p[{len(tables)}], {index})" if index else f"p[{len(tables)}]"

    if isinstance(mask, (And, Or)):
        return f"({_text(mask.one, numbers, tables, i, j)} {mask.symbol} {_text(mask.two, numbers, tables, i, j)})"
    if isinstance(mask, Not):
        return f"(~{_text(mask.one, numbers, tables, i, j)})"
    if isinstance(mask, Shifted):
        first = read(mask.first, "b" if len(mask.first) > 1 else "0")
        return _text(mask.one, numbers, tables, f"({i} - {first})", f"({j} - {first})")
    if isinstance(mask, PerHead):
        which = read(mask.which, "h")
        each = (f"(({which} == {k}) & {_text(m, numbers, tables, i, j)})" for k, m in enumerate(mask.masks))
        return f"({' | '.join(each)})"
    arguments = [f"at, b, h, {i}, {j}"]
    for x in mask.params():
        if isinstance(x, int):
            arguments.append(f"at(p[0], {len(numbers)})")
            numbers.append(x)
        else:
            arguments.append(read(x, ""))
    return f"{type(mask).__name__}({', '.join(arguments)})"


def _narrow(table, also=()):
    """Return integers in 32 bits where these and `also` fit, for speed; truths as they are."""
    fits = all(-WIDEST <= x < WIDEST for part in (table, also) if len(part) for x in (part.min(), part.max()))
    return table if table.dtype == bool or not fits else table.astype(np.int32)


def kind_of_mask(name):
    """Return the kind of mask that a text calls by this name."""
    kinds = [kind for kind in _descendants(Mask) if kind.__name__ == name]
    if len(kinds) != 1:
        raise TypeError(f"{len(kinds)} kinds of masks are named {name}: expected one, a kernel calls it by name")
    return kinds[0]


def _descendants(kind):
    return [kind, *(below for child in kind.__subclasses__() for below in _descendants(child))]
