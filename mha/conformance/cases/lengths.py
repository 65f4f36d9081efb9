"""Lengths: none, one, unequal, of each sample; and widths."""

from typing import Any

import numpy as np

from mha.conformance.case import Refusal, Value
from mha.conformance.cases.build import LN3, array, mixed, one_value, sloped, zeros

EMPTY_CONTEXT: dict[str, Any] = {"q": np.ones((1, 1, 2, 2)), "k": np.zeros((1, 1, 0, 2)), "v": np.zeros((1, 1, 0, 2))}
MANY, HALF = 1030, 515  # more keys than a tile of any kernel holds
LN_MANY = float(np.log(MANY))
ORDER = 17 * np.arange(131) % 131  # the one key that each of many queries sees
PADDED = [[[[0.5, 0.5, 0]]], [[[0, 0, 0]]], [[[1 / 3] * 3]]]

CASES = [
    Value(
        name="no-keys-give-zero",
        report="pytorch/pytorch#192651",
        **EMPTY_CONTEXT,
        expected=np.zeros((1, 1, 2, 2)),
        dangerous=True,
    ),
    Value(
        name="no-queries-keep-the-shape",
        q=np.zeros((1, 2, 0, 2)),
        k=np.zeros((1, 2, 3, 2)),
        v=np.zeros((1, 2, 3, 2)),
        expected=np.zeros((1, 2, 0, 2)),
        dangerous=True,
    ),
    Value(
        name="no-samples-keep-the-shape",
        report="Dao-AILab/flash-attention#1537",
        q=np.zeros((0, 2, 3, 2)),
        k=np.zeros((0, 2, 5, 2)),
        v=np.zeros((0, 2, 5, 2)),
        expected=np.zeros((0, 2, 3, 2)),
        dangerous=True,
    ),
    Value(
        name="no-keys-have-no-weights",
        report="Dao-AILab/flash-attention#2562",
        **EMPTY_CONTEXT,
        of="weights",
        expected=np.zeros((1, 1, 2, 0)),
        dangerous=True,
    ),
    Value(name="no-keys-have-no-mass", **EMPTY_CONTEXT, of="lse", expected=np.full((1, 1, 2), -np.inf), dangerous=True),
    sloped(
        "no-keys-have-no-gradient",
        lambda gradients: gradients["q"],
        np.zeros((1, 1, 1, 1)),
        k=np.zeros((1, 1, 0, 1)),
        v=np.zeros((1, 1, 0, 1)),
        exact=True,
    ),
    one_value("one-key-is-the-output", [3, -5], [2], [7], [7, 7]),
    one_value("unequal-lengths", [0, 0], [0] * 7, [1, 2, 3, 4, 5, 6, 7], [4, 4]),
    Value(
        name="values-have-their-own-width",
        q=zeros(2, 3),
        k=zeros(2, 3),
        v=array([[1.0] * 5, [3.0] * 5]),
        expected=np.full((1, 1, 2, 5), 2.0),
    ),
    one_value("a-large-score-comes-last", [1], MANY * [0] + [LN_MANY], HALF * [1] + HALF * [0] + [2], [1.25]),
    one_value(
        "many-hidden-keys-come-first",
        [1],
        MANY * [7] + [LN3, 0],
        MANY * [9] + [1, 0],
        [0.75],
        mask=[MANY * [False] + 2 * [True]],
    ),
    one_value(
        "every-row-of-many-has-its-mask",
        131 * [0],
        131 * [0],
        np.arange(131) / 131,
        ORDER / 131,
        mask=ORDER[:, None] == np.arange(131),
    ),
    one_value(
        "every-row-of-many-is-causal", 131 * [0], 131 * [0], np.arange(131) / 65, np.arange(131) / 130, causal=True
    ),
    mixed("lengths-of-samples", PADDED, lengths=np.array([2, 0, 3])),
    mixed(
        "lengths-and-a-mask-intersect",
        [[[[0, 1, 0]]], [[[0, 0.5, 0.5]]]],
        lengths=np.array([2, 3]),
        mask=[[False, True, True]],
    ),
    mixed("lengths-in-small-integers", PADDED, lengths=np.array([2, 0, 3], np.int8)),
    mixed(
        "causal-ends-at-the-last-valid-key",
        [[[[1, 0, 0], [0.5, 0.5, 0]]], [[[0.5, 0.5, 0], [1 / 3] * 3]]],
        report="huggingface/transformers#26137",
        lengths=np.array([2, 3]),
        causal=True,
        conventions={"upper-left": [[[[1, 0, 0], [0.5, 0.5, 0]]], [[[1, 0, 0], [0.5, 0.5, 0]]]]},
    ),
    Refusal(
        name="keys-and-values-pair-up",
        report="pytorch/pytorch#193728",
        q=zeros(2),
        k=zeros(3),
        v=zeros(5),
        dangerous=True,
    ),
    Refusal(name="widths-of-q-and-k-agree", q=zeros(2, 3), k=zeros(5, 2), v=zeros(5, 2), dangerous=True),
    Refusal(
        name="batches-agree",
        q=np.zeros((2, 1, 3, 2)),
        k=np.zeros((3, 1, 5, 2)),
        v=np.zeros((3, 1, 5, 2)),
        dangerous=True,
    ),
]
