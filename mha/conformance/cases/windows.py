"""Sliding windows as an option (left, right): how many keys on each side of the query's own."""

import numpy as np

from mha.conformance.cases.build import mixed

HALVES = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]]
THIRDS = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 3, 1 / 3, 1 / 3]]

CASES = [
    mixed(
        "a-window-counts-the-keys-before",
        THIRDS,
        report="huggingface/transformers#39408",
        window=(2, 0),
        conventions={"window-counts-all": HALVES},
    ),
    mixed(
        "a-window-of-zero-is-the-diagonal",
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        report="unslothai/unsloth#8253",
        window=(0, 0),
    ),
    mixed(
        "a-window-has-two-sides",
        [[0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 3, 1 / 3, 1 / 3], [0, 0, 0.5, 0.5]],
        window=(1, 1),
    ),
    mixed("a-window-to-the-right", [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]], window=(0, 1)),
    mixed(
        "a-window-ends-at-the-last-key",
        [[0, 0, 0.5, 0.5, 0], [0, 0, 0, 0.5, 0.5]],
        report="ml-explore/mlx-lm#390",
        window=(1, 0),
        conventions={"upper-left": [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]},
    ),
    mixed(
        "a-window-ends-at-the-last-valid-key",
        [[[[0, 1, 0]]], [[[0, 0, 1]]]],
        window=(0, 0),
        lengths=np.array([2, 3]),
        conventions={"upper-left": [[[[1, 0, 0]]], [[[1, 0, 0]]]]},
    ),
    mixed("a-wide-window-hides-nothing", [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3], window=(99, 0)),
    mixed(
        "a-window-and-a-mask-intersect",
        [[1, 0, 0], [1, 0, 0], [0, 0, 1]],
        window=(1, 0),
        mask=[[True, False, True]] * 3,
    ),
    mixed("a-window-and-causal", [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]], window=(1, 1), causal=True),
]
