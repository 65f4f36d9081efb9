"""A case: a tiny input, the numbers that are right, one rule, and the public report behind it.

Four kinds: `Value` compares numbers, `Gradient` derivatives, `Relation` two calls of the same function, `Refusal` wants
an error. A case checks a `Subject` and returns a `Finding`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mha.conformance.adapter import OPTIONS
from mha.conformance.subject import NoOutput
from mha.text import template

WIDEST = 0.01  # no tolerance is wider than this part of the largest value


class Finding(NamedTuple):
    """What one case found: whether the numbers agree, and with which known convention if not."""

    agrees: bool
    expected: Any
    got: Any
    convention: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """What all kinds have in common. `dangerous` inputs have ended the process of some library."""

    name: str
    report: str = ""
    needs: frozenset[str] = frozenset()
    dangerous: bool = False

    kind: ClassVar[str]

    @property
    def rule(self):
        """The rule in one sentence."""
        return template(f"conformance.rules.{self.name}")

    def check(self, subject):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class Call(Case):
    """A case about one call. What the call needs follows from its options and shapes."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        needs = set(self.needs) | (self.options.keys() & set(OPTIONS))
        needs |= {"causal-with-mask"} if "causal" in needs and needs & {"mask", "bias"} else set()
        needs |= {"grouped"} if self.q.shape[1] != self.k.shape[1] else set()
        needs |= {"value-width"} if self.q.shape[-1] != self.v.shape[-1] else set()
        needs |= {"float16"} if self.q.dtype == np.float16 else set()
        object.__setattr__(self, "needs", frozenset(needs))

    def inputs(self):
        """Return copies of q, k and v, which a function may spoil."""
        return self.q.copy(), self.k.copy(), self.v.copy()

    def given(self):
        """Return the options, arrays as copies too."""
        return {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in self.options.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Value(Call):
    """The output (or what `of` names) has these numbers. `conventions` give those of other, known readings."""

    expected: np.ndarray
    of: str = "output"
    as_given: bool = False
    conventions: Mapping[str, Any] = field(default_factory=dict)

    kind = "value"

    def __post_init__(self):
        super().__post_init__()
        of_stat = {"output": (), "beside weights": ("weights",)}.get(self.of, (self.of,))
        object.__setattr__(self, "needs", self.needs | set(of_stat))

    def check(self, subject):
        got = self.numbers(subject)
        bound = tolerance(subject.rounding(got), self.q, self.k, self.v, self.options)
        return compared(subject, self.expected, got, bound, self.conventions)

    def numbers(self, subject):
        inputs = self.inputs()
        if self.of == "output":
            return subject.attend(*inputs, as_given=self.as_given, **self.given())
        if self.of == "weights":
            return subject.weights(*inputs, **self.given())
        if self.of == "beside weights":
            return subject.attend_beside_weights(*inputs, **self.given())
        return subject.stat(self.of.replace("-", "_"), *inputs, **self.given())


@dataclass(frozen=True, kw_only=True, eq=False)
class Gradient(Call):
    """Derivatives have these numbers. `read` picks them from what `order` gives; `exact` ones may not be rounded."""

    d_output: np.ndarray
    read: Callable
    expected: np.ndarray
    exact: bool = False
    order: str = "gradient"
    tangents: Mapping[str, np.ndarray] = field(default_factory=dict)

    kind = "gradient"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "needs", self.needs | {self.order})

    def check(self, subject):
        got = np.asarray(self.read(self.numbers(subject)))
        unit = subject.rounding(got)
        bound = 8 * tolerance(unit, self.q, self.k, self.v, self.options)
        if not subject.differentiates:
            bound = max(bound, 32 * unit ** (2 / 3))  # h² of truncation and ε / h of rounding, h = ∛ε
        return Finding(same(got, self.expected, 0.0 if self.exact else bound), self.expected, got)

    def numbers(self, subject):
        inputs = self.inputs()
        if self.order == "gradient":
            return subject.gradients(*inputs, d_output=self.d_output, **self.given())
        if self.order == "second-derivative":
            return subject.second(*inputs, d_output=self.d_output, tangents=self.tangents, **self.given())
        return subject.forward(*inputs, tangents=self.tangents, **self.given())


@dataclass(frozen=True, kw_only=True, eq=False)
class Relation(Case):
    """Two results of the same function agree: `run(subject)` returns what is expected and what came.

    A third item gives what is right under other conventions, {convention: numbers}. Sizes are below ten and numbers
    near one, so that 1024 rounding units are room enough.
    """

    run: Callable
    exact: bool = False
    differences: bool = False  # one side is a difference quotient

    kind = "relation"

    def check(self, subject):
        expected, got, *others = self.run(subject)
        unit = subject.rounding(got)
        bound = 0.0 if self.exact else 64 * unit ** (2 / 3) if self.differences else 1024 * unit * largest(expected)
        return compared(subject, expected, got, bound, *others)


@dataclass(frozen=True, kw_only=True, eq=False)
class Part(Case):
    """What `run(subject)` reads from a function beside attention has these numbers, none above ten in size."""

    run: Callable
    expected: np.ndarray
    conventions: Mapping[str, Any] = field(default_factory=dict)

    kind = "value"

    def check(self, subject):
        got = np.asarray(self.run(subject))
        unit = subject.rounding(got) if got.dtype.kind == "f" else 0.0
        return compared(subject, self.expected, got, 128 * unit, self.conventions)


@dataclass(frozen=True, kw_only=True, eq=False)
class Refusal(Call):
    """The call raises; where `or_value` is given, that number is as good. The mask goes in as it is."""

    or_value: np.ndarray | None = None
    conventions: Mapping[str, Any] = field(default_factory=dict)

    kind = "error"

    def check(self, subject):
        wanted = "an error" if self.or_value is None else self.or_value
        try:
            got = subject.attend(*self.inputs(), as_given=True, **self.given())
        except NoOutput:
            raise
        except Exception as error:
            return Finding(True, wanted, f"{type(error).__name__}: {error}")
        bound = tolerance(subject.rounding(got), self.q, self.k, self.v, self.options)
        return compared(subject, wanted, got, bound, self.conventions)


def compared(subject, expected, got, bound, conventions=None):
    """Return the finding: the numbers are right, or they are those of a convention that the adapter declares."""
    if not isinstance(expected, str) and same(got, expected, bound):
        return Finding(True, expected, got)
    for name, other in (conventions or {}).items():
        if name in subject.adapter.conventions and same(got, other, bound):
            return Finding(False, expected, got, name)
    return Finding(False, expected, got)


def same(got, expected, bound):
    """Whether the shapes agree and the numbers lie within `bound`; NaN equals NaN, and infinity infinity."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return False
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= bound
    return bool((near | (got == expected) | (np.isnan(got) & np.isnan(expected))).all())


def tolerance(unit, q, k, v, options):
    """Return how far apart two correct evaluations may lie, from the sizes of the numbers that are finite.

    A score of d products errs by (d + 8) units of its size and passes the error on to its weight; the sum over n keys
    adds n + 8 units; either evaluation makes the errors.
    """
    d, n_k = q.shape[-1], k.shape[-2]
    scale = options.get("scale", d**-0.5 if d else 1.0)
    scores = abs(scale) * d * largest(q) * largest(k) + largest(options.get("bias", 0.0))
    return min(4 * unit * ((d + 8) * scores + n_k + 8), WIDEST) * max(1.0, largest(v))


def largest(x):
    """Return the largest size of a finite entry, 0 if there is none."""
    sizes = np.abs(np.asarray(x, np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))
