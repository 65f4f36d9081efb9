"""Tiny inputs whose outputs can be written down.

With v = I the output is the weights. Equal scores give equal weights; scores that are logarithms give fractions.
"""

import numpy as np

from mha.conformance.case import Gradient, Value

NAN, INF = np.nan, np.inf
LN3 = float(np.log(3.0))  # scores 0 and ln 3 have the weights ¼ and ¾
TWO_KEYS = [0.25, 0.75]


def array(x, dtype=np.float64):
    """Return x with four axes, (b, h, length, width), those that it lacks in front."""
    x = np.array(x, dtype)
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def zeros(n, d=2):
    return np.zeros((1, 1, n, d))


def identity(n, batch=1, num_heads=1):
    return np.broadcast_to(np.eye(n), (batch, num_heads, n, n)).copy()


def arrays(options):
    """Return the options with lists as arrays: a list of truth values, of numbers, or of integers."""
    return {name: np.array(x) if isinstance(x, list) else x for name, x in options.items()}


def mixed(name, expected, *, report="", of="output", conventions=None, needs=(), as_given=False, **options):
    """The weights that equal scores lead to, (…, i, j)."""
    expected = array(expected)
    batch, num_heads, n_q, n_k = expected.shape
    return Value(
        name=name,
        report=report,
        needs=frozenset(needs),
        q=np.zeros((batch, num_heads, n_q, n_k)),
        k=np.zeros((batch, num_heads, n_k, n_k)),
        v=identity(n_k, batch, num_heads),
        options=arrays(options),
        expected=expected,
        of=of,
        as_given=as_given,
        conventions={reading: array(x) for reading, x in (conventions or {}).items()},
    )


def scored(name, scores, expected, *, report="", of="output", conventions=None, **options):
    """What one query makes of keys with these scores, (h, j) or (j,), before the scale if one is given."""
    scores = np.atleast_2d(scores).astype(np.float64)
    num_heads, n_k = scores.shape
    per_row = (n_k,) if of in ("output", "weights") else ()

    def rows(x):
        return np.array(x, np.float64).reshape(1, num_heads, 1, *per_row)

    q, k = np.zeros((1, num_heads, 1, n_k)), np.zeros((1, num_heads, n_k, n_k))
    q[..., 0] = 1.0 if "scale" in options else np.sqrt(n_k)  # which the default scale undoes
    k[..., 0] = scores
    return Value(
        name=name,
        report=report,
        q=q,
        k=k,
        v=identity(n_k, 1, num_heads),
        options=arrays(options),
        expected=rows(expected),
        of=of,
        conventions={reading: rows(x) for reading, x in (conventions or {}).items()},
    )


def one_value(name, q, k, v, expected, *, report="", dtype=np.float64, **options):
    """Rows of width one: q, k, v and the output are lists of numbers, one head."""
    q, k, v, expected = (array(np.array(x, np.float64)[:, None]) for x in (q, k, v, expected))
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    return Value(name=name, report=report, q=q, k=k, v=v, options=arrays(options), expected=expected)


def sloped(name, read, expected, *, report="", order="gradient", exact=False, d_output=1.0, **parts):
    """A derivative of the smallest call with a slope: one query, scores 0 and ln 3, values 0 and 1, output ¾."""
    inputs = {"q": [[1.0]], "k": [[0.0], [LN3]], "v": [[0.0], [1.0]]}
    tangents = {name: array(x) for name, x in parts.pop("tangents", {}).items()}
    inputs = {name: array(parts.pop(name, x)) for name, x in inputs.items()}
    output = (*inputs["q"].shape[:-1], inputs["v"].shape[-1])
    return Gradient(
        name=name,
        report=report,
        **inputs,
        options=arrays(parts),
        d_output=np.broadcast_to(np.array(d_output, np.float64), output).copy(),
        read=read,
        expected=np.array(expected, np.float64),
        exact=exact,
        order=order,
        tangents=tangents,
    )
