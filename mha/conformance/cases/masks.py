"""Boolean masks: True = attend, whatever axes they have."""

import numpy as np

from mha.conformance.case import Refusal, Relation
from mha.conformance.cases.build import array, identity, mixed, scored, zeros

T, F = True, False
E = float(np.e)

CASES = [
    mixed(
        "true-attends",
        [[1, 0]],
        report="pytorch/pytorch#170400",
        as_given=True,
        mask=[[T, F]],
        conventions={"true-hides": [[0, 1]], "floats-are-added": [[E / (E + 1), 1 / (E + 1)]]},
    ),
    mixed("rows-differ", [[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]], mask=[[F, T, F], [T, F, T], [T, F, F]]),
    mixed("mask-with-a-hole", [[0.5, 0, 0.5]], mask=[[T, F, T]]),
    mixed("one-row-for-all-queries", [[0.5, 0.5, 0]] * 2, mask=[[T, T, F]]),
    mixed(
        "padding-lies-on-the-key-axis",
        [[[[0.5, 0.5, 0, 0]] * 4], [[[0.25] * 4] * 4]],
        report="hyunwoongko/transformer#40",
        mask=[[[[T, T, F, F]]], [[[T, T, T, T]]]],
    ),
    mixed(
        "masks-of-samples-stay-apart",
        [[[[1, 0]]] * 2, [[[0, 1]]] * 2],
        report="line/lighthouse#77",
        mask=[[[[T, F]]], [[[F, T]]]],
    ),
    mixed("masks-of-heads-stay-apart", [[[[1, 0]], [[0, 1]]]] * 3, mask=[[[[T, F]], [[F, T]]]]),
    mixed(
        "masks-of-samples-and-heads",
        [[[[1, 0]], [[0, 1]]], [[[0.5, 0.5]], [[1, 0]]], [[[0, 1]], [[0.5, 0.5]]]],
        report="pytorch/pytorch#64706",
        mask=[[[[T, F]], [[F, T]]], [[[T, T]], [[T, F]]], [[[F, T]], [[T, T]]]],
    ),
    scored(
        "mask-and-bias-together", [0, 0, 0], [0.25, 0.75, 0], mask=[[T, T, F]], bias=[[0.0, float(np.log(3)), 50.0]]
    ),
    scored("hidden-below-any-score", [-2e9, 0], [1, 0], mask=[[T, F]]),
    Relation(
        name="a-full-mask-is-no-mask",
        needs=frozenset({"mask"}),
        run=lambda subject: (
            subject.attend(zeros(3, 5), zeros(5, 5), identity(5)),
            subject.attend(zeros(3, 5), zeros(5, 5), identity(5), mask=np.ones((3, 5), bool)),
        ),
    ),
    Refusal(
        name="numbers-are-no-mask",
        report="pytorch/pytorch#21518",
        q=zeros(3, 3),
        k=zeros(3, 3),
        v=identity(3),
        options={"mask": np.tril(np.ones((3, 3)))},
        or_value=array([[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3]),
        conventions={
            "floats-are-added": array(
                [
                    [E / (E + 2), 1 / (E + 2), 1 / (E + 2)],
                    [E / (2 * E + 1), E / (2 * E + 1), 1 / (2 * E + 1)],
                    [1 / 3] * 3,
                ]
            )
        },
    ),
    Refusal(
        name="integers-are-no-mask",
        q=zeros(2, 2),
        k=zeros(2, 2),
        v=identity(2),
        options={"mask": np.tril(np.ones((2, 2), np.int64))},
        or_value=array([[1, 0], [0.5, 0.5]]),
        conventions={"floats-are-added": array([[E / (E + 1), 1 / (E + 1)], [0.5, 0.5]])},
    ),
    Refusal(
        name="a-mask-of-three-axes-goes-by-head",
        q=np.zeros((2, 2, 1, 2)),
        k=np.zeros((2, 2, 2, 2)),
        v=identity(2, 2, 2),
        options={"mask": np.array([[[T, F]], [[F, T]]])},
        or_value=np.array([[[[1.0, 0]], [[0, 1]]]] * 2),
        conventions={
            "three-axes-are-samples": np.array([[[[1.0, 0]]] * 2, [[[0, 1]]] * 2]),
            "floats-are-added": np.array([[[[E, 1]], [[1, E]]]] * 2) / (E + 1),
        },
    ),
    Refusal(
        name="padding-as-a-mask-is-refused",
        report="hyunwoongko/transformer#40",
        q=np.zeros((2, 1, 3, 4)),
        k=np.zeros((2, 1, 4, 4)),
        v=identity(4, 2),
        options={"mask": np.array([[T, T, F, F], [T, T, T, T]])},
        conventions={"two-axes-are-padding": np.array([[[[0.5, 0.5, 0, 0]] * 3], [[[0.25] * 4] * 3]])},
    ),
    Refusal(
        name="flattened-masks-are-refused",
        report="ArrowLuo/CLIP4Clip#22",
        q=np.zeros((2, 2, 1, 2)),
        k=np.zeros((2, 2, 2, 2)),
        v=identity(2, 2, 2),
        options={"mask": np.array([[[T, F]], [[F, T]], [[T, T]], [[T, F]]])},
        conventions={"heads-in-batch": np.array([[[[0, 1.0]], [[1, 0]]], [[[0, 0]], [[0, 1]]]])},
    ),
]
