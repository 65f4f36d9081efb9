"""The algebra of masks: what every mask can do, and how two of them make a third.

A rule is written with + − * // % & | ~ and comparisons of integers only, and reads its arrays through
`at(table, index)`, so that the same rule drives NumPy, torch, intervals and compiled kernels. A negative number is
neither divided nor used as an index: languages disagree on both. Every field of a mask is an integer, a flat table or
a mask.
"""

from dataclasses import dataclass, fields
from functools import reduce

from mha.integers import count
from mha.masks import words
from mha.masks.arrays import common_size, fingerprint, in_one_library
from mha.masks.convertible import Convertible
from mha.masks.evaluate import query_start, visible

__all__ = ["And", "Mask", "Not", "Or", "Pair", "at", "joined"]


def at(table, index):
    return table[index]


@dataclass(frozen=True, eq=False, repr=False)
class Mask(Convertible):
    """A rule on (sample b, query head h, query position i, key position j); combine rules with `&`, `|` and `~`."""

    __array_ufunc__ = None  # so that `array & mask` raises instead of giving an array of masks

    goes_by_distance = False  # whether moving query and key together changes nothing
    goes_by_slot = False  # whether it matters which slot is meant, wherever it stands

    def __call__(self, b, h, i, j):
        samples, heads = self.sizes()  # an axis that tells nothing apart stays out of the result
        return self.rule(at, 0 if samples == 1 else b, 0 if heads == 1 else h, i, j, *self.params())

    def params(self):
        """Return what the rule takes after (at, b, h, i, j): integers and flat tables."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def parts(self):
        """Return the masks that this one is made of."""
        return [part for part in self.params() if isinstance(part, Mask)]

    def on_tables(self, move):
        """Return the same mask with every array replaced by `move(array)`: another library, another device."""
        return self._rebuild(lambda part: part.on_tables(move), move)

    def placed(self, q_start):
        """Return the same mask, its by-slot terms told where the first query stands."""
        return self._rebuild(lambda part: part.placed(q_start), lambda table: table)

    def compares_positions(self):
        """Tell whether a term compares positions; lengths, padding, segments and arrays go by slot alone."""
        parts = self.parts()
        return any(part.compares_positions() for part in parts) if parts else not self.goes_by_slot

    def ready(self, n_q, n_k):
        """Return the array (b | 1, h | 1, i, j) if the mask holds just that, else None."""
        return None

    def dense(self, n_q, n_k, q_start=None):
        """Return the boolean array (i, j), True = attend; (b | 1, h | 1, i, j) if samples or heads differ."""
        n_q, n_k = count("n_q", n_q), count("n_k", n_k)
        start = query_start(self, n_q, n_k, q_start)
        samples, heads = self._sizes_from(start)
        self.check(n_q, n_k, samples, heads)
        return visible(self, n_q, n_k, start=start, batch=samples, num_heads=heads)

    def pairs(self, n_q, n_k, q_start=None):
        """Count the visible pairs of `dense`, without the array: tiles that are full count by their area."""
        from mha.masks.counting import count_pairs

        return count_pairs(self, n_q, n_k, q_start)

    def empty_rows(self, n_q, n_k, q_start=None):
        """Return the indices of the rows of `dense` that see no key: (number, 1), or (number, 3) for b, h, i."""
        from mha.masks.counting import find_empty_rows

        return find_empty_rows(self, n_q, n_k, q_start)

    def tiles(self, n_q, n_k, *, size, q_start=None, refine=False):
        """Return the `Tiles` of `size` (query rows, key columns) that hold visible pairs, full ones apart.

        `refine` looks at the pairs of the tiles that the rule on spans leaves open, and settles them.
        """
        from mha.masks.tiles import find_tiles

        return find_tiles(self, n_q, n_k, size=size, q_start=q_start, refine=refine)

    def explain(self, i, j, *, b=0, h=0, q_start=0):
        """Say in one line whether query position i may see key position j, and which term decides."""
        return words.explain(self, i, j, b, h, q_start)

    def draw(self, n_q, n_k, q_start=None, *, b=0, h=0):
        """Return a picture in text, queries down and keys across: ■ visible, · hidden."""
        return words.draw(self, n_q, n_k, q_start, b, h)

    def why(self, b, h, i, j, negated=False):
        """Return (visible, the reasons that decide together, other terms each of which decides the same alone)."""
        seen = bool(self(b, h, i, j))
        return seen != negated, [f"{'~' * negated}{self!r} ({self.numbers(seen, b, h, i, j)})"], []

    def numbers(self, seen, b, h, i, j):
        """Return the comparison that decides, in numbers."""
        raise NotImplementedError

    def sizes(self):
        """Return how many samples and heads the tables tell apart; (1, 1) if they do not."""
        samples, heads = zip((1, 1), *(part.sizes() for part in self.parts()), strict=True)
        return common_size(samples), common_size(heads)

    def tables(self):
        """Return the arrays that the terms read."""
        own = [table for field in fields(self) if hasattr(table := getattr(self, field.name), "shape")]
        return own + [table for part in self.parts() for table in part.tables()]

    def breaks(self):
        """Return which queries and which keys begin a document, (b | 1, n − 1) each, the first left out; or None."""
        return None

    def valid_lengths(self):
        """Return where each sample's keys end, one past the last valid one; None if no term knows it."""
        return None

    def check(self, n_q, n_k, batch=1, num_heads=1):
        """Raise unless every table fits a call of this size."""
        for part in self.parts():
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

    def _rebuild(self, on_mask, on_table):
        own = (getattr(self, field.name) for field in fields(self))
        return type(self)(
            *(on_mask(x) if isinstance(x, Mask) else x if isinstance(x, int) else on_table(x) for x in own)
        )

    def _sizes_from(self, start):
        samples, heads = self.sizes()
        return common_size((samples, 1 if isinstance(start, int) else len(start))), heads

    def _content(self):
        own = (getattr(self, field.name) for field in fields(self))
        return type(self), *(x if isinstance(x, (int, Mask, tuple)) else fingerprint(x) for x in own)

    def __eq__(self, other):
        return self._content() == other._content() if isinstance(other, Mask) else NotImplemented

    def __hash__(self):
        return hash(self._content())


class Pair(Mask):
    """Two masks joined: one of a pair's terms decides, or all of them do."""

    def terms(self):
        """Return the terms of a chain of the same operator, left to right."""
        return [term for part in self.params() for term in (part.terms() if type(part) is type(self) else [part])]

    def valid_lengths(self):
        return joined([part.valid_lengths() for part in self.params()], self.end_of_both)

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

    def breaks(self):
        return next((found for part in self.params() if (found := part.breaks()) is not None), None)

    @staticmethod
    def end_of_both(one, two):
        return one.clip(max=two)


@dataclass(frozen=True, eq=False, repr=False)
class Or(Pair):
    one: Mask
    two: Mask
    symbol = "|"
    one_decides = True

    def __call__(self, b, h, i, j):
        return self.one(b, h, i, j) | self.two(b, h, i, j)

    @staticmethod
    def end_of_both(one, two):
        return one.clip(min=two)


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    one: Mask

    def __call__(self, b, h, i, j):
        see = self.one(b, h, i, j)
        return not see if isinstance(see, bool) else ~see  # of Python's own truths ~ makes −1 and −2, both true

    def valid_lengths(self):
        return self.one.valid_lengths()

    def why(self, b, h, i, j, negated=False):
        return self.one.why(b, h, i, j, not negated)

    def __invert__(self):
        return self.one

    def __repr__(self):
        return f"~{_group(self.one)}"


def joined(slots, join):
    """Return what the terms that know a slot per sample know together; None if none does."""
    known = in_one_library(*(x for x in slots if x is not None))
    sizes = {len(x) for x in known}
    if len(sizes) > 1:
        raise ValueError(
            f"mask: its terms are for {' and '.join(map(str, sorted(sizes)))} samples: expected one number"
        )
    return reduce(join, known) if len(known) else None


def _operand(other):
    if isinstance(other, Mask):
        return other
    raise TypeError(f"a mask combines with masks, got {type(other).__name__}: wrap an array in masks.dense(array)")


def _group(mask):
    return f"({mask!r})" if isinstance(mask, Pair) else repr(mask)
