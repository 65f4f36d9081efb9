"""Numbers at the edge of their type: large scores, half precision, many keys."""

import numpy as np

from mha.conformance.case import Refusal, Relation, Value
from mha.conformance.cases.build import INF, LN3, TWO_KEYS, array, one_value, scored

HALF = np.float16


def half_bias(subject):
    """Half-precision inputs with a bias of float32: 0 and −∞ mean what the mask means."""
    q, k, v = (x.astype(HALF) for x in np.random.default_rng(3).normal(size=(3, 1, 2, 3, 4)))
    see = np.tri(3, dtype=bool)
    return (
        subject.attend(q, k, v, mask=see),
        subject.attend(q, k, v, bias=np.where(see, 0.0, -INF).astype(np.float32)),
    )


CASES = [
    scored("large-scores-do-not-overflow", [1000, 1000 + LN3], TWO_KEYS),
    scored("low-scores-do-not-vanish", [-1000, LN3 - 1000], TWO_KEYS),
    scored("a-far-larger-score-takes-all", [0, 1000], [0, 1]),
    one_value("rows-have-their-own-maximum", [1, -1], [1000, 1000 + LN3], [0, 1], [0.75, 0.25]),
    Value(
        name="half-precision-does-not-overflow",
        report="ultralytics/ultralytics#24990",
        q=np.full((1, 1, 1, 64), 60, HALF),
        k=np.repeat(array([[60.0], [30.0]]), 64, -1).astype(HALF),
        v=np.repeat(array([[1.0], [2.0]]), 64, -1).astype(HALF),
        expected=np.ones((1, 1, 1, 64)),
    ),
    one_value("half-precision-counts-many-keys", [0], [0] * 4099, [1] * 4099, [1], dtype=HALF),
    Relation(
        name="a-finer-bias-beside-half-precision",
        report="pytorch/pytorch#111276",
        needs=frozenset({"float16", "mask", "bias"}),
        run=half_bias,
    ),
    Refusal(
        name="integers-are-not-rounded",
        q=array([[0]], np.int64),
        k=array([[0], [0]], np.int64),
        v=array([[1], [4]], np.int64),
        or_value=array([[2.5]]),
    ),
]
