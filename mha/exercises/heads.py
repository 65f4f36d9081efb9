"""Multi-head attention: splitting, joining, the sum over heads, and what it costs.

Projections are written as in the papers, `x @ w`, with w of shape (width in, width out).
"""

import math

import numpy as np

from mha import cost
from mha.exercises.dot_product import attention_weights, softmax
from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree
from mha.reference import head_contributions, join_heads, split_heads
from mha.reference import multi_head_attention as multi_head


def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads):
    return multi_head(x, w_q, w_k, w_v, w_o, num_heads=num_heads)


def reorder_output_rows(w_o, order):
    blocks = w_o.reshape(len(order), -1, w_o.shape[-1])
    return blocks[order].reshape(w_o.shape)


def _numbered(*shape):
    """Fill an array with 0, 1, 2, …, so that every entry tells where it came from."""
    return np.arange(math.prod(shape), dtype=float).reshape(shape)


def _split_plainly(x, num_heads):
    b, n, width = x.shape
    return x.reshape(b, num_heads, n, width // num_heads)


def _split_interleaved(x, num_heads):
    b, n, width = x.shape
    return x.reshape(b, n, width // num_heads, num_heads).transpose(0, 3, 1, 2)


def _join_plainly(x):
    b, h, n, width = x.shape
    return x.reshape(b, n, h * width)


SPLIT = Exercise(
    id="heads-1",
    solve=split_heads,
    cases=lambda rng: [(_numbered(1, 3, 4), 2), (_numbered(2, 5, 21), 3), (_numbered(3, 1, 11), 1)],
    mistakes={
        "no-transpose": _split_plainly,
        "heads-after-positions": lambda x, num_heads: x.reshape(*x.shape[:2], num_heads, -1),
        "interleaved": _split_interleaved,
        "count-as-width": lambda x, num_heads: x.reshape(*x.shape[:2], -1, num_heads).swapaxes(1, 2),
        "heads-last": lambda x, num_heads: x.reshape(*x.shape[:2], num_heads, -1).swapaxes(2, 3),
        "heads-first": lambda x, num_heads: split_heads(x, num_heads).swapaxes(0, 1),
        "one-batch": lambda x, num_heads: x.reshape(x.shape[1], num_heads, -1).swapaxes(0, 1)[None],
    },
    properties={
        "same-numbers": lambda output, x, num_heads: (np.sort(output, None) == np.sort(x, None)).all(),
        "first-head-first": lambda output, x, num_heads: (output[:, 0] == x[:, :, : output.shape[-1]]).all(),
    },
)

JOIN = Exercise(
    id="heads-2",
    solve=join_heads,
    cases=lambda rng: [(_numbered(1, 2, 3, 2),), (_numbered(2, 3, 5, 7),), (_numbered(3, 1, 2, 11),)],
    mistakes={
        "no-transpose": _join_plainly,
        "interleaved": lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape[0], x.shape[2], -1),
        "sum": lambda x: x.sum(1),
        "mean": lambda x: x.mean(1),
        "stacked-positions": lambda x: x.reshape(x.shape[0], -1, x.shape[-1]),
        "not-merged": lambda x: x.swapaxes(1, 2),
    },
    properties={
        "same-numbers": lambda output, x: (np.sort(output, None) == np.sort(x, None)).all(),
        "first-head-first": lambda output, x: (output[:, :, : x.shape[-1]] == x[:, 0]).all(),
    },
)


def _projected(rng, b, n, d_model, num_heads):
    x = rng.standard_normal((b, n, d_model))
    return x, *(rng.standard_normal((d_model, d_model)) / math.sqrt(d_model) for _ in range(4)), num_heads


def _multi_head(split=split_heads, join=join_heads, weights=attention_weights):
    """Build a wrong multi-head attention from one wrong part."""

    def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads):
        q, k, v = (split(x @ w, num_heads) for w in (w_q, w_k, w_v))
        return join(weights(q, k) @ v) @ w_o

    return multi_head_attention


def _weights_scaled_by(scale):
    return lambda q, k: softmax(q @ k.swapaxes(-1, -2) * scale(q))


def _weights_over(axis):
    def weights(q, k):
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        return np.moveaxis(softmax(np.moveaxis(scores, axis, -1)), -1, axis)

    return weights


def _given(change):
    """Build a wrong multi-head attention that is right but for the matrices it uses."""

    def with_other_matrices(x, w_q, w_k, w_v, w_o, num_heads):
        return multi_head_attention(x, *change(w_q, w_k, w_v, w_o), num_heads)

    return with_other_matrices


MULTI_HEAD = Exercise(
    id="heads-3",
    solve=multi_head_attention,
    cases=lambda rng: [
        _projected(rng, 1, 1, 2, 1),
        _projected(rng, 1, 3, 4, 2),
        _projected(rng, 2, 5, 21, 3),
        _projected(rng, 3, 7, 22, 11),
    ],
    mistakes={
        "no-output-projection": _given(lambda w_q, w_k, w_v, w_o: (w_q, w_k, w_v, np.eye(len(w_o)))),
        "split-no-transpose": _multi_head(split=_split_plainly),
        "join-no-transpose": _multi_head(join=_join_plainly),
        "both-no-transpose": _multi_head(split=_split_plainly, join=_join_plainly),
        "interleaved": _multi_head(split=_split_interleaved),
        "heads-after-positions": _multi_head(
            split=lambda x, num_heads: x.reshape(*x.shape[:2], num_heads, -1),
            join=lambda x: x.reshape(*x.shape[:2], -1),
        ),
        "one-head": lambda x, w_q, w_k, w_v, w_o, num_heads: multi_head_attention(x, w_q, w_k, w_v, w_o, 1),
        "no-scale": _multi_head(weights=_weights_scaled_by(lambda q: 1.0)),
        "scale-by-model-width": _multi_head(
            weights=_weights_scaled_by(lambda q: 1 / math.sqrt(q.shape[1] * q.shape[-1]))
        ),
        "scale-by-width": _multi_head(weights=_weights_scaled_by(lambda q: 1 / q.shape[-1])),
        "softmax-over-queries": _multi_head(weights=_weights_over(-2)),
        "softmax-over-heads": _multi_head(weights=_weights_over(1)),
        "keys-and-values-swapped": _given(lambda w_q, w_k, w_v, w_o: (w_q, w_v, w_k, w_o)),
        "queries-and-keys-swapped": _given(lambda w_q, w_k, w_v, w_o: (w_k, w_q, w_v, w_o)),
        "transposed-projections": _given(lambda *matrices: [w.T for w in matrices]),
        "values-not-projected": _given(lambda w_q, w_k, w_v, w_o: (w_q, w_k, np.eye(len(w_v)), w_o)),
    },
    properties={
        "one-position": lambda output, x, w_q, w_k, w_v, w_o, num_heads: (
            x.shape[1] > 1 or agree(output, x @ w_v @ w_o, 1e-9)
        ),
    },
)

CONTRIBUTIONS = Exercise(
    id="heads-4",
    solve=head_contributions,
    cases=lambda rng: [
        (np.array([[[[1.0, 0.0]], [[0.0, 2.0]]]]), _numbered(4, 3)),
        (rng.standard_normal((2, 3, 5, 7)), rng.standard_normal((21, 11))),
        (rng.standard_normal((3, 2, 1, 5)), rng.standard_normal((10, 10))),
    ],
    mistakes={
        "summed": lambda heads, w_o: head_contributions(heads, w_o).sum(1),
        "first-block": lambda heads, w_o: heads @ w_o[: heads.shape[-1]],
        "interleaved": lambda heads, w_o: heads @ w_o.reshape(heads.shape[3], heads.shape[1], -1).swapaxes(0, 1),
        "averaged": lambda heads, w_o: head_contributions(heads, w_o) / heads.shape[1],
        "running-sum": lambda heads, w_o: head_contributions(heads, w_o).cumsum(1),
        "reversed": lambda heads, w_o: heads @ w_o.reshape(heads.shape[1], heads.shape[3], -1)[::-1],
    },
    properties={
        "sums-to-output": lambda output, heads, w_o: agree(output.sum(1), join_heads(heads) @ w_o, 1e-9),
        "depends-on-own-head": lambda output, heads, w_o: agree(
            output[:, 0], heads[:, 0] @ w_o[: heads.shape[-1]], 1e-9
        ),
    },
)

PARAMETERS = Exercise(
    id="heads-5",
    solve=lambda: cost.attention_parameters(512, 8),
    mistakes={
        "no-biases": lambda: 4 * 512 * 512,
        "times-heads": lambda: 8 * (4 * 512 * 512 + 4 * 512),
        "no-output-projection": lambda: 3 * 512 * 512 + 3 * 512,
        "no-output-bias": lambda: 4 * 512 * 512 + 3 * 512,
        "one-head": lambda: 3 * (512 * 64 + 64) + 512 * 512 + 512,
        "single-matrix": lambda: 512 * 512 + 512,
        "rounded": lambda: 1.05e6,
        "in-millions": lambda: 1.05,
    },
    tolerance=1e-12,
)

REORDER = Exercise(
    id="heads-6",
    solve=reorder_output_rows,
    cases=lambda rng: [
        (_numbered(6, 2), np.array([1, 2, 0])),
        (rng.standard_normal((10, 7)), np.array([2, 0, 4, 1, 3])),
        (rng.standard_normal((21, 21)), np.array([1, 2, 0])),
    ],
    mistakes={
        "unchanged": lambda w_o, order: w_o.copy(),
        "inverse": lambda w_o, order: reorder_output_rows(w_o, np.argsort(order)),
        "single-rows": lambda w_o, order: w_o[order],
        "columns": lambda w_o, order: w_o[:, order],
        "interleaved": lambda w_o, order: w_o.reshape(-1, len(order), w_o.shape[-1])[:, order].reshape(w_o.shape),
    },
    properties={
        "same-rows": lambda output, w_o, order: (
            np.sort(output.sum(-1)).round(9) == np.sort(w_o.sum(-1)).round(9)
        ).all(),
    },
)

EXERCISES = (SPLIT, JOIN, MULTI_HEAD, CONTRIBUTIONS, PARAMETERS, REORDER)
