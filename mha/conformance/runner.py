"""Run cases on an adapter, each to one of five results."""

import warnings
from collections.abc import Callable

import numpy as np

from mha.conformance.adapter import Adapter, adapt
from mha.conformance.cases import chosen
from mha.conformance.report import Report, Result
from mha.conformance.subject import Subject


def verify(
    fn: Callable | Adapter, *, supports=None, cases=None, arrays=None, conventions=(), dtype=np.float64, name=None
) -> Report:
    """Run the cases on an attention function `fn(q, k, v, *, mask=…, bias=…, scale=…, …)` and report which hold.

    Arrays are NumPy's, (batch, heads, length, width), and masks are boolean, True = attend; `arrays=Torch()` or
    `arrays=Jax()` gives tensors of that library instead and differentiates with it, else derivatives are central
    differences. `supports` names what the function can do (`FEATURES`); by default the options in its signature, and
    what a harmless call shows. What is not supported is not run, and not passed either. `conventions` names known
    readings that differ from ours without being faults (`CONVENTIONS`). `dtype`, float64 or float32, is that of the
    numbers that go in; what comes out is held to its own. `cases` are names, groups, or objects of `Case`. What the
    function raises is its answer; a crash or a call that never returns is not caught here.
    """
    if isinstance(fn, Adapter):
        if supports is not None or arrays is not None or conventions or dtype != np.float64 or name is not None:
            raise TypeError(
                "an Adapter declares supports, arrays, conventions, dtype and name itself: pass cases= only"
            )
        adapter = fn
    else:
        adapter = adapt(fn, supports=supports, arrays=arrays, conventions=conventions, dtype=dtype, name=name)
    return Report(adapter.name, [examine(adapter, case) for case in chosen(cases)])


def examine(adapter, case) -> Result:
    """Return what one case finds."""
    missing = sorted(case.needs - adapter.supports)
    if missing:
        return Result(case, "unsupported", detail=", ".join(missing))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            finding = case.check(Subject(adapter))
    except (Exception, SystemExit) as error:  # whatever a function under examination raises is its answer
        return Result(case, "fails", expected=getattr(case, "expected", None), got=f"{type(error).__name__}: {error}")
    status = "holds" if finding.agrees else "convention" if finding.convention else "fails"
    return Result(case, status, finding.expected, finding.got, finding.convention)
