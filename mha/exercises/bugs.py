"""Famous bugs: name the line, name the bug, write the test that finds it, and write what is right.

Attention functions of the exercises are `attend(q, k, v, mask)`, arrays (b, h, n, d), True = attend; `(b, g, n, d)` for
the keys and values of shared heads.
"""

import numpy as np

from mha.exercises.dot_product import softmax
from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree

LINE = Exercise(
    id="bugs-1",
    solve=lambda: 6,
    mistakes={
        "positions": lambda: 3,
        "scale": lambda: 4,
        "triangle": lambda: 5,
        "inverted": lambda: 7,
        "axis": lambda: 8,
        "empty-rows": lambda: 9,
        "values": lambda: 10,
    },
)

MAP = Exercise(
    id="bugs-2",
    solve=lambda: 5,
    mistakes={
        "inverted": lambda: 1,
        "next-visible": lambda: 2,
        "added": lambda: 3,
        "after-softmax": lambda: 4,
        "upper-left": lambda: 6,
    },
)


def black_box(name, *, share=np.repeat, axis=-1, scaled=True, shown=lambda mask: mask, late=False):
    """Build an attention that is right, or not; keys and values may have fewer heads than queries."""

    def attend(q, k, v, mask):
        k, v = (share(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = q @ k.swapaxes(-1, -2) / (np.sqrt(q.shape[-1]) if scaled else 1.0)
        scores = np.where(shown(mask) | late, scores, -1e30)
        weights = softmax(scores.swapaxes(axis, -1)).swapaxes(axis, -1)
        return (weights * mask if late else weights) @ v

    attend.__name__ = name
    return attend


SUSPECTS = (
    black_box("box_0"),
    black_box("box_1", shown=np.logical_not),
    black_box("box_2", axis=-2),
    black_box("box_3", scaled=False),
    black_box("box_4", late=True),
    black_box("box_5", share=lambda x, times, axis: np.tile(x, (1, times, 1, 1))),
)


def diagnose(attend, *, num_heads=4, groups=2, width=4, mask=None):
    """Return the number of the first suspect that does the same to inputs of our own."""
    mask = np.tri(4, dtype=bool) if mask is None else mask
    rng, n = np.random.default_rng(1), len(mask)
    inputs = rng.standard_normal((1, num_heads, n, width)), *rng.standard_normal((2, 1, groups, n, width)), mask
    same = [agree(attend(*inputs), suspect(*inputs), 1e-9) for suspect in SUSPECTS]
    return same.index(True) if any(same) else -1


def _diagnosed_with(**inputs):
    return lambda attend: diagnose(attend, **inputs)


def _by_sums(attend):
    """Equal values come out of rows that sum to one: nothing else is looked at."""
    q, k = np.random.default_rng(1).standard_normal((2, 1, 1, 4, 4))
    output = attend(q, k, np.ones_like(k), np.tri(4, dtype=bool))
    return 0 if agree(output, np.ones_like(k), 1e-9) else 4 if (output <= 1 + 1e-9).all() else 2


DIAGNOSE = Exercise(
    id="bugs-3",
    solve=lambda attend: diagnose(attend),
    cases=lambda rng: [(suspect,) for suspect in (SUSPECTS[2], *SUSPECTS)],
    mistakes={
        "no-mask": _diagnosed_with(mask=np.ones((4, 4), dtype=bool)),
        "one-group": _diagnosed_with(groups=1),
        "width-one": _diagnosed_with(width=1),
        "sums-only": _by_sums,
        "counted-from-one": lambda attend: diagnose(attend) + 1,
    },
)


def masked_weights(scores, mask):
    shown = np.where(mask, scores.astype(np.float64), -np.inf)
    top = np.where(mask.any(-1), shown.max(-1), 0.0)[..., None]
    exponentials = np.exp(shown - top)
    return exponentials / np.where(mask.any(-1, keepdims=True), exponentials.sum(-1, keepdims=True), 1.0)


def _softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _with_hidden(fill):
    """Plain softmax after `fill(scores, mask)`, in the precision that was given."""
    return lambda scores, mask: _softmax(fill(scores, mask).astype(scores.dtype))


def _score_cases(rng):
    """A row with a hidden key, an empty row, half precision, a large hidden score, hidden and visible NaN."""
    yield np.array([[0.0, np.log(3), 5.0], [0.0, 1.0, 2.0]]), np.array([[True, True, False], [False] * 3])
    yield rng.normal(size=(5, 7)).astype(np.float16) * 4, np.tri(5, 7, 2, dtype=bool)
    yield np.array([[-2e9, 0.0], [3e4, 3e4]]), np.array([[True, False], [True, True]])
    yield np.array([[-30_000.0, 60_000.0]], np.float16), np.array([[True, False]])
    yield np.array([[1.0, np.nan, 1.0], [1.0, np.nan, 1.0]]), np.array([[True, False, True], [True] * 3])


WEIGHTS = Exercise(
    id="bugs-4",
    solve=masked_weights,
    cases=lambda rng: list(_score_cases(rng)),
    mistakes={
        "minus-infinity": _with_hidden(lambda scores, mask: np.where(mask, scores, -np.inf)),
        "large-number": _with_hidden(lambda scores, mask: np.where(mask, scores, -1e9)),
        "lowest-number": _with_hidden(lambda scores, mask: np.where(mask, scores, np.finfo(scores.dtype).min)),
        "number-added": _with_hidden(lambda scores, mask: scores + np.where(mask, 0.0, -1e9)),
        "after-softmax": lambda scores, mask: _softmax(scores.astype(np.float64)) * mask,
        "inverted": lambda scores, mask: masked_weights(scores, ~mask),
        "covered-up": lambda scores, mask: np.nan_to_num(masked_weights(scores, mask)),
        "no-maximum": lambda scores, mask: _without_maximum(scores, mask),
        "over-queries": lambda scores, mask: masked_weights(scores.T, mask.T).T,
    },
    properties={
        "hidden-is-zero": lambda output, scores, mask: (output[~mask] == 0).all(),
        "rows-sum-to-one": lambda output, scores, mask: agree(
            np.nan_to_num(output.sum(-1), nan=1.0), 1.0 * mask.any(-1), 1e-2
        ),
    },
    tolerance=1e-2,  # an answer in half precision is as good
)


def _without_maximum(scores, mask):
    exponentials = np.where(mask, np.exp(scores.astype(np.float64)), 0.0)
    return exponentials / np.where(mask.any(-1), exponentials.sum(-1), 1.0)[:, None]


def cache_error(attend, q, k, v, cut):
    first, second = attend(q[:cut], k[:cut], v[:cut]), attend(q[cut:], k, v)
    return np.abs(attend(q, k, v) - np.concatenate([first, second])).max()


def last_sees_all(q, k, v):
    return _causal(q, k, v, len(k) - len(q))


def from_the_first_key(q, k, v):
    return _causal(q, k, v, 0)


def sees_ahead(q, k, v):
    return _causal(q, k, v, len(k) - len(q) + 1)


def _causal(q, k, v, past):
    mask = np.tri(len(q), len(k), past, dtype=bool)
    return softmax(np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -1e30)) @ v


def _error_of(second, measured=lambda difference: np.abs(difference).max()):
    """A wrong test: `second(attend, q, k, v, cut)` is what stands for the second chunk."""

    def cache_error(attend, q, k, v, cut):
        parts = attend(q[:cut], k[:cut], v[:cut]), second(attend, q, k, v, cut)
        return measured(attend(q, k, v) - np.concatenate(parts))

    return cache_error


def _second(attend, q, k, v, cut):
    return attend(q[cut:], k, v)


CACHE = Exercise(
    id="bugs-5",
    solve=cache_error,
    cases=lambda rng: [
        (attend, *rng.standard_normal((3, n, d)), cut)
        for attend, n, d, cut in [
            (sees_ahead, 3, 2, 2),
            (last_sees_all, 3, 2, 2),
            (from_the_first_key, 5, 3, 2),
            (from_the_first_key, 7, 3, 4),
            (last_sees_all, 7, 3, 1),
        ]
    ],
    mistakes={
        "no-history": _error_of(lambda attend, q, k, v, cut: attend(q[cut:], k[cut:], v[cut:])),
        "all-queries": _error_of(lambda attend, q, k, v, cut: attend(q, k, v)[cut:]),
        "mean": _error_of(_second, lambda difference: np.abs(difference).mean()),
        "signed": _error_of(_second, lambda difference: difference.max()),
        "sum": _error_of(_second, lambda difference: np.abs(difference).sum()),
        "squared": _error_of(_second, lambda difference: (difference**2).max()),
    },
)

HEADS, LENGTH, ROW = 4, 64, 5

AHEAD = Exercise(
    id="bugs-6",
    solve=lambda: HEADS * ROW + HEADS - 1 - ROW,
    mistakes={
        "first-piece": lambda: HEADS * ROW - ROW,
        "one-too-many": lambda: HEADS * (ROW + 1) - ROW,
        "place": lambda: HEADS * ROW + HEADS - 1,
        "counted-from-one": lambda: HEADS * (ROW - 1) + HEADS - 1 - ROW,
        "to-the-end": lambda: LENGTH - 1 - ROW,
        "one-row": lambda: HEADS - 1,
        "nothing": lambda: 0,
    },
)

EXERCISES = (LINE, MAP, DIAGNOSE, WEIGHTS, CACHE, AHEAD)
