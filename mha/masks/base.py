"""Masks as values: small immutable rules that say which query position may attend to which key position.

A rule is written with operators only and reads its arrays through `at(table, index)`, so the same rule drives NumPy,
torch and compiled kernels. Rules see positions, not slots: query slot 0 stands at `q_start`, key slot j at j. Only
`dense` goes by slot. True means attend.
"""

import sys
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from mha.integers import count, integer, integers, own
from mha.text import say

__all__ = ["Mask", "as_mask", "causal", "dense", "lengths", "query_start", "visible", "window", "window_of"]

LONGEST_REPR = 64  # a table with more entries is named by its shape


def at(table, index):
    return table[index]


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A rule on (sample b, query head h, query position i, key position j); combine rules with `&`, `|` and `~`."""

    __array_ufunc__ = None  # so that `array & mask` raises instead of giving an array of masks

    def __call__(self, b, h, i, j):
        return self.rule(at, b, h, i, j, *self.params())

    def params(self):
        return tuple(getattr(self, field.name) for field in fields(self))

    def on_tables(self, move):
        """Return the same mask with every array replaced by `move(array)`: another library, another device."""
        return self._rebuild(lambda part: part.on_tables(move), move)

    def placed(self, q_start):
        """Return the same mask with its by-slot terms told where the first query stands."""
        return self._rebuild(lambda part: part.placed(q_start), lambda table: table)

    def _rebuild(self, on_mask, on_table):
        parts = (getattr(self, field.name) for field in fields(self))
        return type(self)(
            *(on_mask(x) if isinstance(x, Mask) else x if isinstance(x, int) else on_table(x) for x in parts)
        )

    def dense(self, n_q, n_k, q_start=None):
        """Return the boolean array (i, j), True = attend; (b | 1, h | 1, i, j) if samples or heads differ."""
        n_q, n_k = count("n_q", n_q), count("n_k", n_k)
        start = query_start(self, n_q, n_k, q_start)
        samples, heads = self._sizes_from(start)
        self.check(n_q, n_k, samples, heads)
        return visible(self, n_q, n_k, start=start, batch=samples, num_heads=heads)

    def pairs(self, n_q, n_k, q_start=None):
        """Count the visible pairs of `dense`."""
        return int(np.count_nonzero(self.dense(n_q, n_k, q_start)))

    def empty_rows(self, n_q, n_k, q_start=None):
        """Return the indices of the rows of `dense` that see no key: (number, 1), or (number, 3) for b, h, i."""
        return np.argwhere(~self.dense(n_q, n_k, q_start).any(-1))

    def tiles(self, n_q, n_k, *, size, q_start=None, refine=False):
        """Return the `Tiles` of `size` (query rows, key columns) that hold visible pairs, full ones apart.

        `refine` looks at the pairs of the tiles that the rule on spans leaves open, and settles them.
        """
        from mha.masks.tiles import find_tiles

        return find_tiles(self, n_q, n_k, size=size, q_start=q_start, refine=refine)

    def explain(self, i, j, *, b=0, h=0, q_start=0):
        """Say in one line whether query position i may see key position j, and which term decides."""
        start = query_start(self, 0, 0, q_start)
        b, h = self._slots(start, b, h)
        seen, reasons, others = self.placed(start).why(b, h, integer("i", i), count("j", j))
        state = "visible" if seen else "hidden"
        text = say(f"masks.explain.{state}", i=i, j=j, reason=say("masks.explain.and").join(reasons))
        return text + "".join(say(f"masks.explain.also_{state}", term=repr(term)) for term in others)

    def draw(self, n_q, n_k, q_start=None, *, b=0, h=0):
        """Return a picture in text, queries down and keys across: ■ visible, · hidden."""
        see, start = self.dense(n_q, n_k, q_start), query_start(self, n_q, n_k, q_start)
        b, h = self._slots(start, b, h)
        see = see if see.ndim == 2 else see[b if len(see) > 1 else 0, h if see.shape[1] > 1 else 0]
        first = start if isinstance(start, int) else int(start[b if len(start) > 1 else 0])
        cell, edge = len(str(max(n_k - 1, 0))), max(len(str(first)), len(str(first + n_q - 1)), len("i\\j"))
        lines = [["i\\j".rjust(edge), *(str(j).rjust(cell) for j in range(n_k))]]
        for i, row in enumerate(see, start=first):
            lines.append([str(i).rjust(edge), *(("■" if seen else "·").rjust(cell) for seen in row)])
        return "\n".join(" ".join(line) for line in lines)

    def why(self, b, h, i, j, negated=False):
        """Return (visible, the reasons that decide together, other terms each of which decides the same alone)."""
        seen = bool(self(b, h, i, j))
        return seen != negated, [f"{'~' * negated}{self!r} ({self.numbers(seen, b, h, i, j)})"], []

    def numbers(self, seen, b, h, i, j):
        """Return the comparison that decides, in numbers."""
        raise NotImplementedError

    def sizes(self):
        """Return how many samples and heads the tables tell apart; (1, 1) if they do not."""
        samples, heads = zip((1, 1), *(part.sizes() for part in self._parts()), strict=True)
        return _common_size(samples), _common_size(heads)

    def tables(self):
        """Return the arrays that the terms read."""
        return [table for part in self._parts() for table in part.tables()]

    def valid_lengths(self):
        """Return the number of valid keys per sample, or None if no term knows it."""
        return None

    def check(self, n_q, n_k, batch=1, num_heads=1):
        """Raise unless every table fits a call of this size."""
        for part in self._parts():
            part.check(n_q, n_k, batch, num_heads)

    def __and__(self, other):
        return And(self, _operand(other))

    def __or__(self, other):
        return Or(self, _operand(other))

    __rand__ = __ror__ = lambda self, other: _operand(other)

    def __invert__(self):
        return Not(self)

    def __bool__(self):
        raise TypeError("a mask has no truth value: combine masks with & | ~, not with and, or, not")

    def _parts(self):
        return [part for part in self.params() if isinstance(part, Mask)]

    def _sizes_from(self, start):
        samples, heads = self.sizes()
        return _common_size((samples, 1 if isinstance(start, int) else len(start))), heads

    def _slots(self, start, b, h):
        """Return sample b and head h as integers, or raise where the mask has fewer."""
        samples, heads = self._sizes_from(start)
        return _slot("b", b, samples), _slot("h", h, heads)

    def _content(self):
        parts = (getattr(self, field.name) for field in fields(self))
        return type(self), *(x if isinstance(x, (int, Mask)) else _fingerprint(x) for x in parts)

    def __eq__(self, other):
        return self._content() == other._content() if isinstance(other, Mask) else NotImplemented

    def __hash__(self):
        return hash(self._content())


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Mask):
    @staticmethod
    def rule(at, b, h, i, j):
        return j <= i

    def numbers(self, seen, b, h, i, j):
        return f"{j} ≤ {i}" if seen else f"{j} > {i}"

    def __repr__(self):
        return "causal"


@dataclass(frozen=True, eq=False, repr=False)
class Window(Mask):
    left: int
    right: int

    @staticmethod
    def rule(at, b, h, i, j, left, right):
        return (i - j <= left) & (j - i <= right)

    def numbers(self, seen, b, h, i, j):
        late, early, bound = (i, j, self.left) if j <= i else (j, i, self.right)
        return f"{late} − {early} = {late - early} {'≤' if seen else '>'} {bound}"

    def __repr__(self):
        return f"window({self.left}, {self.right})"


@dataclass(frozen=True, eq=False, repr=False)
class Lengths(Mask):
    n: Any

    @staticmethod
    def rule(at, b, h, i, j, n):
        return j < at(n, b)

    def numbers(self, seen, b, h, i, j):
        return say("masks.explain.sample", b=b, comparison=f"{j} {'<' if seen else '≥'} {int(self.n[b])}")

    def sizes(self):
        return len(self.n), 1

    def tables(self):
        return [self.n]

    def valid_lengths(self):
        return self.n

    def check(self, n_q, n_k, batch=1, num_heads=1):
        if len(self.n) != batch:
            raise ValueError(f"mask: lengths has {len(self.n)} entries and the batch has {batch}: give one per sample")
        if _on_host(self.n) and batch and self.n.max() > n_k:
            raise ValueError(f"mask: lengths holds {int(self.n.max())} and there are {n_k} keys: expected 0 to {n_k}")

    def __repr__(self):
        return f"lengths({_table_text(self.n)})"


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Mask):
    table: Any  # (b | 1, h | 1, i | 1, j | 1)
    start: Any = (0,)  # where slot 0 stands, per sample or once

    @staticmethod
    def rule(at, b, h, i, j, table, start, start_step, b_step, h_step, i_step, j_step):
        row = i - at(start, b * start_step)
        return at(table, b * b_step + h * h_step + row * i_step + j * j_step)

    def __call__(self, b, h, i, j):
        samples, heads = self._sizes_from(self.start)  # an axis that tells nothing apart stays out of the result
        return super().__call__(0 if samples == 1 else b, 0 if heads == 1 else h, i, j)

    def params(self):
        steps, step = [], 1
        for size in reversed(self.table.shape):
            steps.insert(0, step * (size != 1))  # 0 repeats an axis of size 1
            step *= size
        return self.table.reshape(-1), self.start, int(len(self.start) != 1), *steps

    def placed(self, q_start):
        return replace(self, start=(q_start,) if isinstance(q_start, int) else q_start)

    def row(self, b, i):
        return i - int(self.start[b if len(self.start) > 1 else 0])

    def numbers(self, seen, b, h, i, j):
        return say(f"masks.explain.slot_{'visible' if seen else 'hidden'}", row=self.row(b, i), column=j)

    def why(self, b, h, i, j, negated=False):
        for name, slot, size in zip("ij", (self.row(b, i), j), self.table.shape[2:], strict=True):
            if size != 1 and not 0 <= slot < size:
                raise ValueError(f"{name} is in slot {slot}: expected 0 to {size - 1}, the slots of the dense mask")
        return super().why(b, h, i, j, negated)

    def sizes(self):
        return tuple(self.table.shape[:2])

    def tables(self):
        return [self.table]

    def check(self, n_q, n_k, batch=1, num_heads=1):
        expected = batch, num_heads, n_q, n_k
        if any(size not in (1, wanted) for size, wanted in zip(self.table.shape, expected, strict=True)):
            got = self.table.shape[2:] if self.table.shape[:2] == (1, 1) else tuple(self.table.shape)
            hint = "; padding of keys is masks.lengths(n) or keep[:, None, None, :]" if len(got) == 2 else ""
            raise ValueError(
                f"mask has shape {tuple(got)}: expected (i, j) = {(n_q, n_k)} "
                f"or broadcastable to (b, h, i, j) = {expected}{hint}"
            )

    def __repr__(self):
        table = self.table[0, 0] if self.table.shape[:2] == (1, 1) else self.table
        return f"dense({_table_text(table)})"


class Pair(Mask):
    """Two masks joined: one of a pair's terms decides, or all of them do."""

    def terms(self):
        """Return the terms of a chain of the same operator, left to right."""
        return [term for part in self.params() for term in (part.terms() if type(part) is type(self) else [part])]

    def valid_lengths(self):
        one, two = (part.valid_lengths() for part in self.params())
        return one if two is None else two if one is None else self.join_lengths(*_in_one_library(one, two))

    def why(self, b, h, i, j, negated=False):
        terms = self.terms()
        answers = [term.why(b, h, i, j, negated) for term in terms]
        decisive = self.one_decides != negated  # a single term with this value gives it to the whole
        if all(seen != decisive for seen, _, _ in answers):
            return not decisive, [reason for _, reasons, _ in answers for reason in reasons], []
        first, *rest = [k for k, (seen, _, _) in enumerate(answers) if seen == decisive]
        _, reasons, others = answers[first]
        return decisive, reasons, [*others, *(~terms[k] if negated else terms[k] for k in rest)]

    def _content(self):
        return type(self), *self.terms()

    def __repr__(self):
        return f" {self.symbol} ".join(_group(term) for term in self.terms())


@dataclass(frozen=True, eq=False, repr=False)
class And(Pair):
    one: Mask
    two: Mask
    symbol = "&"
    one_decides = False

    def __call__(self, b, h, i, j):
        return self.one(b, h, i, j) & self.two(b, h, i, j)

    def join_lengths(self, one, two):
        return one.clip(max=two)


@dataclass(frozen=True, eq=False, repr=False)
class Or(Pair):
    one: Mask
    two: Mask
    symbol = "|"
    one_decides = True

    def __call__(self, b, h, i, j):
        return self.one(b, h, i, j) | self.two(b, h, i, j)

    def join_lengths(self, one, two):
        return one.clip(min=two)


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    one: Mask

    def __call__(self, b, h, i, j):
        return ~self.one(b, h, i, j)

    def valid_lengths(self):
        return self.one.valid_lengths()

    def why(self, b, h, i, j, negated=False):
        return self.one.why(b, h, i, j, not negated)

    def __invert__(self):
        return self.one

    def __repr__(self):
        return f"~{_group(self.one)}"


causal = Causal()


def window(left, right):
    """See `left` positions back, `right` positions ahead and one's own: both ends inclusive."""
    return Window(count("left", left), count("right", right))


def window_of(total):
    """See `total` keys in all, the last of them at one's own position: `window(total − 1, 0)`."""
    return window(count("total", total, least=1) - 1, 0)


def lengths(n):
    """See the first n[b] keys of sample b; the rest is padding. Queries end at the last valid key by default."""
    n = integers("n", n, "integers, one length per sample, not one truth per key")
    if _on_host(n) and len(n) and n.min() < 0:
        raise ValueError(f"n holds {int(n.min())}: expected lengths of at least 0")
    return Lengths(_frozen(n))


def dense(array):
    """See what a boolean array says, by slot: (i, j), or four axes broadcastable to (b, h, i, j); True = attend."""
    array = own("mask", array, "rows of equal lengths")
    if not str(array.dtype).endswith("bool"):
        raise TypeError(
            f"mask has dtype {array.dtype}: expected booleans, True = attend; numbers that are added are bias="
        )
    if array.ndim not in (2, 4):
        hint = "; write (h, i, j) as (1, h, i, j) and (b, i, j) as (b, 1, i, j)" if array.ndim == 3 else ""
        raise ValueError(f"mask has shape {tuple(array.shape)}: expected (i, j) or (b, h, i, j){hint}")
    table = array[None, None] if array.ndim == 2 else array
    return Dense(_frozen(table))


def as_mask(mask):
    """Return a Mask for what `mask=` accepts: a Mask or a boolean array."""
    if isinstance(mask, Mask):
        return mask
    if hasattr(mask, "dtype") and hasattr(mask, "shape"):
        return dense(mask)
    raise TypeError(
        f"mask is a {type(mask).__name__}: expected a mask of mha.masks, as masks.causal and masks.window(2, 0) are, "
        "or a boolean array (True = attend)"
    )


def query_start(mask, n_q, n_k, q_start=None):
    """Return the position of the first query: an int, or one per sample.

    By default the last query stands at the last key, and with `lengths` at the last valid key of its sample.
    Then no query stands before slot 0, unless there are more queries than keys.
    """
    if q_start is not None:
        return _positions("q_start", q_start)
    valid = mask.valid_lengths() if mask is not None else None
    return n_k - n_q if valid is None else (valid - n_q).clip(min=min(0, n_k - n_q))


def visible(mask, n_q, n_k, *, start, batch=1, num_heads=1, rows=slice(None), arange=np.arange, table=np.asarray):
    """Evaluate a mask on every pair: (i, j), or (b | 1, h | 1, i, j) if its tables tell samples or heads apart.

    `rows` picks query slots; `arange` and `table` make and move arrays, so torch evaluates the same rule on any device.
    """
    if isinstance(mask, Dense) and tuple(mask.table.shape[2:]) == (n_q, n_k):
        see = table(mask.table[:, :, rows])
        return see[0, 0] if tuple(see.shape[:2]) == (1, 1) else see
    start = start if isinstance(start, int) else table(start)
    b, h = arange(batch)[:, None, None, None], arange(num_heads)[None, :, None, None]
    i, j = arange(n_q)[rows][:, None], arange(n_k)
    positions = (start if isinstance(start, int) else start.reshape(-1, 1, 1, 1)) + i
    see = mask.placed(start).on_tables(table)(b, h, positions, j)
    if tuple(see.shape[-2:]) != (len(i), n_k):
        see = see & ((i >= 0) & (j >= 0))
    return see[0, 0] if see.ndim == 4 and tuple(see.shape[:2]) == (1, 1) else see


def _operand(other):
    if isinstance(other, Mask):
        return other
    raise TypeError(f"a mask combines with masks, got {type(other).__name__}: wrap an array in masks.dense(array)")


def _positions(name, value):
    """Return one integer as an int, one per sample as a flat array."""
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0):
        return integers(name, value, "an integer, or one integer per sample")
    return integer(name, value)


def _slot(name, value, size):
    value = count(name, value)
    if size != 1 and value >= size:
        raise ValueError(f"{name} is {value}: expected less than {size}, as many as the mask tells apart")
    return value


def _common_size(sizes):
    """Return the size to which axes of size 1 and of one other size broadcast."""
    return next((size for size in sizes if size != 1), 1)


def _in_one_library(*tables):
    """Return the tables as they are, or all as tensors if one of them is."""
    tensor = next((table for table in tables if hasattr(table, "new_tensor")), None)
    return tables if tensor is None else [tensor.new_tensor(x) if isinstance(x, np.ndarray) else x for x in tables]


def _on_host(table):
    """Whether the numbers can be read now: not on a device, where reading would wait, and not while torch traces."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        return False
    return isinstance(table, np.ndarray) or table.device.type == "cpu"


def _frozen(table):
    if isinstance(table, np.ndarray):
        table.setflags(write=False)
    return table


def _fingerprint(table):
    table = np.asarray(table.cpu() if hasattr(table, "cpu") else table)
    return table.shape, table.dtype.kind, table.astype(bool if table.dtype == bool else np.int64).tobytes()


def _table_text(table):
    size = int(np.prod(table.shape))
    return str(table.tolist()) if 0 < size <= LONGEST_REPR else f"<{' × '.join(map(str, table.shape))}>"


def _group(mask):
    return f"({mask!r})" if isinstance(mask, Pair) else repr(mask)
