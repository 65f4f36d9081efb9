"""Grouped heads: query head h reads key and value head ⌊h · G / H⌋."""

import numpy as np

from mha.conformance.case import Refusal, Value
from mha.conformance.cases.build import LN3, TWO_KEYS, identity, sloped

T, F = True, False
HEADS = np.arange(2.0).reshape(1, 2, 1, 1)  # each value head holds its own number
KEYS = np.sqrt(2) * np.array([[[0, 0], [LN3, 0]], [[LN3, 0], [0, 0]]])[None]  # the default scale undoes the root

CASES = [
    Value(
        name="groups-are-contiguous",
        report="onnx/onnx#7274",
        q=np.zeros((1, 4, 1, 1)),
        k=np.zeros((1, 2, 1, 1)),
        v=HEADS,
        expected=np.array([0.0, 0, 1, 1]).reshape(1, 4, 1, 1),
        conventions={"heads-take-turns": np.array([0.0, 1, 0, 1]).reshape(1, 4, 1, 1)},
    ),
    Value(
        name="groups-of-each-sample",
        q=np.zeros((2, 4, 1, 1)),
        k=np.zeros((2, 2, 1, 1)),
        v=np.arange(4.0).reshape(2, 2, 1, 1),
        expected=np.array([0.0, 0, 1, 1, 2, 2, 3, 3]).reshape(2, 4, 1, 1),
        conventions={"heads-take-turns": np.array([0.0, 1, 0, 1, 2, 3, 2, 3]).reshape(2, 4, 1, 1)},
    ),
    Value(
        name="keys-and-values-share-a-group",
        report="SHI-Labs/NATTEN#92",
        q=np.ones((1, 4, 1, 2)),
        k=KEYS,
        v=identity(2, 1, 2),
        expected=np.array([TWO_KEYS, TWO_KEYS, TWO_KEYS[::-1], TWO_KEYS[::-1]]).reshape(1, 4, 1, 2),
        conventions={
            "heads-take-turns": np.array([TWO_KEYS, TWO_KEYS[::-1], TWO_KEYS, TWO_KEYS[::-1]]).reshape(1, 4, 1, 2)
        },
    ),
    Value(
        name="one-key-head-serves-all",
        q=np.ones((1, 3, 1, 2)),
        k=np.zeros((1, 1, 2, 2)),
        v=np.array([[2.0, 4.0], [4.0, 8.0]]).reshape(1, 1, 2, 2),
        expected=np.tile([3.0, 6.0], (1, 3, 1, 1)),
    ),
    Value(
        name="a-mask-goes-by-query-head",
        q=np.zeros((1, 4, 1, 2)),
        k=np.zeros((1, 2, 2, 2)),
        v=identity(2, 1, 2),
        options={"mask": np.array([[T, F], [F, T], [T, T], [T, F]]).reshape(1, 4, 1, 2)},
        expected=np.array([[1.0, 0], [0, 1], [0.5, 0.5], [1, 0]]).reshape(1, 4, 1, 2),
    ),
    Value(
        name="a-bias-goes-by-query-head",
        q=np.zeros((1, 4, 1, 2)),
        k=np.zeros((1, 2, 2, 2)),
        v=identity(2, 1, 2),
        options={"bias": np.array([[0, LN3], [LN3, 0], [0, 0], [0, LN3]]).reshape(1, 4, 1, 2)},
        expected=np.array([TWO_KEYS, TWO_KEYS[::-1], [0.5, 0.5], TWO_KEYS]).reshape(1, 4, 1, 2),
    ),
    Value(
        name="a-sink-goes-by-query-head",
        q=np.zeros((1, 4, 1, 1)),
        k=np.zeros((1, 2, 1, 1)),
        v=np.ones((1, 2, 1, 1)),
        options={"sinks": np.log([1.0, 2, 3, 4])},
        expected=np.array([1 / 2, 1 / 3, 1 / 4, 1 / 5]).reshape(1, 4, 1, 1),
    ),
    sloped(
        "a-shared-head-sums-its-gradients",
        lambda gradients: np.concatenate([gradients["k"].ravel(), gradients["v"].ravel()]),
        [-9 / 16, 9 / 16, 3 / 4, 9 / 4],
        q=np.ones((1, 3, 1, 1)),
    ),
    Refusal(
        name="heads-that-do-not-divide-are-refused",
        q=np.zeros((1, 3, 1, 2)),
        k=np.zeros((1, 2, 2, 2)),
        v=np.zeros((1, 2, 2, 2)),
    ),
]
