"""What the kit needs to know of an attention function: what it can do, how it is called, how it is differentiated."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mha.conformance.arrays import NumPy

OPTIONS = ("mask", "bias", "scale", "softcap", "sinks", "q_start", "causal", "window", "lengths")
ABILITIES = (
    "causal-with-mask",
    "grouped",
    "value-width",
    "float16",
    "weights",
    "lse",
    "max-logit",
    "entropy",
    "rotate",
    "gradient",
    "second-derivative",
    "forward-derivative",
)
PARTS = ("alibi-slopes", "distance-buckets", "disentangled", "linear-attention", "linear-average", "delta-rule")
FEATURES = frozenset(OPTIONS + ABILITIES + PARTS)
CONVENTIONS = frozenset(
    {
        "true-hides",  # a boolean mask names what is hidden
        "floats-are-added",  # numbers in place of a boolean mask are a bias
        "two-axes-are-padding",  # a mask (batch, keys) is one of padding
        "three-axes-are-samples",  # a mask (batch, i, j)
        "missing-keys-are-hidden",  # a mask or bias may name the first keys only
        "heads-in-batch",  # masks may be flattened to (batch · heads, i, j)
        "upper-left",  # the first query stands at the first key
        "window-counts-all",  # a window of n holds n keys, the query's own included
        "heads-take-turns",  # query head h reads key head h mod G
        "interleaved",  # rotary pairs are neighbours
        "bias-inside-the-cap",  # scale → bias → softcap
        "slopes-in-one-series",  # ALiBi's slopes are 2^(−8h/H) for any number of heads
        "distances-turned",  # the positions' query is looked up at key − query
    }
)


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An attention function, and what it declares.

    `attend(q, k, v, **options)` takes and returns arrays of the library `arrays`; so do the other functions.
    `as_given`, where it differs, hands a mask on without any conversion. `both` returns the output of a call that
    also asks for weights, `stats` a dict of lse, max_logit and entropy, `backward(q, k, v, d_output, **options)` the
    gradients by the name of the input, where the library of arrays cannot differentiate. `dtype` is that in which the
    function is given the numbers; cases about half precision give half precision.

    `parts` are functions beside attention, by the name of the feature: `alibi-slopes(num_heads)`;
    `distance-buckets(distances, num_buckets, max_distance, bidirectional)`, distances being key − query;
    `disentangled(q, k, position_keys, position_queries, q_positions, k_positions)`, what DeBERTa adds to the unscaled
    scores, with tables (heads, 2 · span, width); `linear-attention(q, k, v, state=None, log_decay=None)` and
    `delta-rule(q, k, v, beta, state=None)`, which return output and last state; `linear-average(q, k, v)`.
    """

    name: str
    attend: Callable
    supports: frozenset[str]
    arrays: Any = field(default_factory=NumPy)
    as_given: Callable | None = None
    weights: Callable | None = None
    both: Callable | None = None
    stats: Callable | None = None
    backward: Callable | None = None
    rotate: Callable | None = None
    parts: Mapping[str, Callable] = field(default_factory=dict)
    conventions: frozenset[str] = frozenset()
    dtype: Any = np.float64
    packages: tuple[str, ...] = ()
    isolated: bool = False  # a foreign library may end the process: its dangerous cases run in another
    environment: Mapping[str, str] = field(default_factory=dict)  # with which all cases run in another process

    def __post_init__(self):
        check_names("supports", self.supports, FEATURES)
        check_names("conventions", self.conventions, CONVENTIONS)
        asked = {"weights": self.weights and self.both, "rotate": self.rotate}
        asked |= dict.fromkeys(("lse", "max-logit", "entropy"), self.stats)
        asked |= {part: self.parts.get(part) for part in PARTS}
        for name, function in asked.items():
            if name in self.supports and function is None:
                raise ValueError(f"supports names {name!r}, which needs a function beside attend: build an Adapter")


def check_names(argument, names, known):
    """Raise unless all names are known ones."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(
            f"{argument} names {', '.join(map(repr, unknown))}: expected some of {', '.join(sorted(known))}"
        )


def adapt(fn, *, supports=None, arrays=None, conventions=(), dtype=np.float64, name=None):
    """Return the adapter of a function `fn(q, k, v, *, mask=…, bias=…, …)`.

    Without `supports`, the options are those that the signature names, and grouped heads, values of another width and
    the options behind `**options` are tried once on a harmless call.
    """
    if not callable(fn):
        raise TypeError(f"fn is a {type(fn).__name__}: expected a function fn(q, k, v, *, mask, bias, scale, …)")
    arrays = NumPy() if arrays is None else arrays
    for argument, names in (("supports", supports), ("conventions", conventions)):
        if isinstance(names, str):
            raise TypeError(f"{argument} is the string {names!r}: expected a set of names")
    if isinstance(arrays, type):
        raise TypeError(f"arrays is the class {arrays.__name__}: expected an object, {arrays.__name__}()")
    if dtype not in (np.float64, np.float32):
        raise TypeError(
            f"dtype is {dtype}: expected numpy.float64 or numpy.float32; cases about float16 bring their own"
        )
    return Adapter(
        name=getattr(fn, "__name__", type(fn).__name__) if name is None else name,
        attend=fn,
        supports=frozenset(_found(fn, arrays) if supports is None else supports),
        arrays=arrays,
        conventions=frozenset(conventions),
        dtype=np.dtype(dtype),
    )


def _found(fn, arrays):
    """Return the features of a function that declares none."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a built-in function does not tell
        parameters = None
    names = {parameter.name for parameter in parameters or ()} & set(OPTIONS)
    if parameters is None or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        names |= {name for name, value in HARMLESS.items() if _runs(fn, arrays, **{name: value})}
    names |= {name for name, sizes in SIZES.items() if _runs(fn, arrays, sizes)}
    names |= {"causal-with-mask"} if {"causal", "mask"} <= names else set()
    derivatives = {"second-derivative", "forward-derivative"} if arrays.exact_derivatives else set()
    return names | {"float16", "gradient"} | derivatives


# heads of queries, heads of keys, width of values
SIZES = {"grouped": (4, 2, 3), "value-width": (2, 2, 5)}
HARMLESS: dict[str, Any] = {
    "mask": np.ones((2, 3), bool),
    "bias": np.zeros((2, 3)),
    "scale": 1.0,
    "softcap": 1.0,
    "sinks": np.zeros(2),
    "causal": True,
    "window": (1, 0),
    "lengths": np.array([3]),
}


def _runs(fn, arrays, sizes=(2, 2, 3), **options):
    num_heads, num_kv_heads, d_value = sizes
    shapes = (1, num_heads, 2, 3), (1, num_kv_heads, 3, 3), (1, num_kv_heads, 3, d_value)
    try:
        with arrays.session(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fn(*(arrays.enter(np.zeros(shape)) for shape in shapes), **{k: arrays.enter(x) for k, x in options.items()})
    except (Exception, SystemExit):  # whatever it raises, it does not take this call
        return False
    return True
