"""Scale, cap, bias, in this order, and what they are by default."""

import numpy as np

from mha.conformance.case import Refusal, Value
from mha.conformance.cases.build import INF, LN3, TWO_KEYS, array, identity, mixed, scored, sloped

T, F = True, False
SIGMOID_1 = float(1 / (1 + np.exp(-1)))  # the weight of a score 1 beside a score 0
INSIDE = float(1 / (1 + np.exp(-2 * np.tanh((LN3 - 1) / 2))))  # the bias −1 added before the cap
WIDE = np.ones((1, 1, 1, 4))  # a query of width 4: its default scale is ½
ZERO_AND_ONE = array([[0.0] * 4, [1.0] * 4])


def keys(number):
    """Two keys of width 4 with scores 0 and `number` before the scale."""
    return array([[0.0] * 4, [number / 4] * 4])


CASES = [
    Value(name="the-default-scale", q=WIDE, k=keys(2 * LN3), v=ZERO_AND_ONE, expected=array([[0.75] * 4])),
    Value(
        name="the-scale-goes-by-key-width",
        q=WIDE,
        k=keys(2 * LN3),
        v=array([[0.0], [1.0]]),
        expected=array([[0.75]]),
    ),
    Value(
        name="a-scale-of-ones-own",
        q=WIDE,
        k=keys(LN3),
        v=ZERO_AND_ONE,
        options={"scale": 1.0},
        expected=array([[0.75] * 4]),
    ),
    scored("a-scale-of-zero", [0, 7], [0.5, 0.5], scale=0.0),
    scored("a-negative-scale", [0, LN3], [0.75, 0.25], scale=-1.0),
    scored("a-bias-is-added", [0, 0], TWO_KEYS, report="pytorch/pytorch#21518", bias=[[0.0, LN3]]),
    Value(
        name="a-bias-is-not-scaled",
        q=WIDE,
        k=keys(0.0),
        v=ZERO_AND_ONE,
        options={"bias": np.array([[0.0, LN3]])},
        expected=array([[0.75] * 4]),
    ),
    scored("a-given-scale-leaves-the-bias-alone", [0, 2 * LN3], [0.5, 0.5], scale=0.5, bias=[[LN3, 0.0]]),
    scored("a-bias-of-minus-infinity-hides", [0, LN3], [1, 0], bias=[[0.0, -INF]]),
    Refusal(
        name="a-bias-of-one-column-changes-nothing",
        q=np.zeros((1, 1, 3, 3)),
        k=np.zeros((1, 1, 3, 3)),
        v=identity(3),
        options={"bias": np.array([[0.0], [LN3], [0.0]])},
        or_value=array([[1 / 3] * 3] * 3),
        conventions={"missing-keys-are-hidden": array([[1, 0, 0]] * 3)},
    ),
    mixed("a-bias-of-each-head", [[[TWO_KEYS], [TWO_KEYS[::-1]]]], bias=[[[[0.0, LN3]], [[LN3, 0.0]]]]),
    Refusal(
        name="a-bias-of-three-axes-goes-by-head",
        q=np.zeros((2, 2, 1, 2)),
        k=np.zeros((2, 2, 2, 2)),
        v=identity(2, 2, 2),
        options={"bias": np.array([[[0.0, LN3]], [[LN3, 0.0]]])},
        or_value=np.array([[[TWO_KEYS], [TWO_KEYS[::-1]]]] * 2),
    ),
    mixed("a-bias-of-each-sample", [[[TWO_KEYS]], [[TWO_KEYS[::-1]]]], bias=[[[[0.0, LN3]]], [[[LN3, 0.0]]]]),
    scored("a-cap-bends-the-scores", [0, LN3], [1 - SIGMOID_1, SIGMOID_1], softcap=2.0),  # 2 · tanh(½ ln 3) = 1
    scored("the-cap-comes-after-the-scale", [0, 2 * LN3], [1 - SIGMOID_1, SIGMOID_1], softcap=2.0, scale=0.5),
    scored(
        "the-cap-comes-before-the-bias",
        [0, LN3],
        [0.5, 0.5],
        softcap=2.0,
        bias=[[0.0, -1.0]],
        conventions={"bias-inside-the-cap": [1 - INSIDE, INSIDE]},
    ),
    mixed(
        "the-cap-comes-before-the-mask", [[1, 0]], report="Dao-AILab/flash-attention#1025", softcap=1.0, mask=[[T, F]]
    ),
    sloped(
        "a-cap-bends-the-gradient",
        lambda gradients: gradients["k"].ravel(),
        [-SIGMOID_1 * (1 - SIGMOID_1), 0.75 * SIGMOID_1 * (1 - SIGMOID_1)],
        softcap=2.0,
    ),
    sloped("a-bias-has-a-gradient", lambda gradients: gradients["bias"].ravel(), [-3 / 16, 3 / 16], bias=[[0.0, 0.0]]),
]
