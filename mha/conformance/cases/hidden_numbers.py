"""What a hidden key holds does not matter: free cache slots and padding may be NaN or infinite."""

import numpy as np

from mha.conformance.cases.build import INF, LN3, NAN, one_value, sloped

T, F = True, False
HIDE_LAST = {"mask": [[T, F]]}

CASES = [
    one_value(
        "nan-in-a-hidden-value", [1], [1, 1], [1, NAN], [1], report="Dao-AILab/flash-attention#1745", **HIDE_LAST
    ),
    one_value("nan-in-a-hidden-key", [1], [1, NAN], [1, 2], [1], report="vllm-project/vllm#53856", **HIDE_LAST),
    one_value("infinity-in-a-hidden-value", [1], [1, 1], [1, INF], [1], **HIDE_LAST),
    one_value("infinity-in-a-hidden-key", [1], [1, INF], [1, 2], [1], **HIDE_LAST),
    one_value("minus-infinity-in-a-hidden-key", [1], [1, -INF], [1, 2], [1], **HIDE_LAST),
    one_value("nan-behind-a-bias", [1], [1, NAN], [1, NAN], [1], bias=[[0.0, -INF]]),
    one_value("nan-everywhere-in-an-empty-row", [1], [NAN, NAN], [NAN, NAN], [0], mask=[[F, F]]),
    one_value(
        "nan-in-the-future",
        [0, 0, 0],
        [0, 0, NAN],
        [2, 4, NAN],
        [2, 3, NAN],
        report="Dao-AILab/flash-attention#2374",
        mask=[[T, F, F], [T, T, F], [T, T, T]],
    ),
    one_value("nan-beyond-the-length", [1], [1, NAN], [1, NAN], [1], lengths=np.array([1])),
    one_value("a-visible-nan-shows", [1], [1, 1], [1, NAN], [NAN], mask=[[T, T]]),
    sloped(
        "nan-in-hidden-slots-has-no-gradient",
        lambda gradients: np.concatenate([gradients[name].ravel() for name in ("q", "k", "v")]),
        [3 / 16 * LN3, -3 / 16, 3 / 16, 0, 0.25, 0.75, 0],
        report="pytorch/pytorch#40932",
        k=[[0.0], [LN3], [NAN]],
        v=[[0.0], [1.0], [NAN]],
        mask=[[T, T, F]],
    ),
    sloped(
        "a-hidden-key-has-no-gradient",
        lambda gradients: np.stack([gradients["k"][0, 0, 2, 0], gradients["v"][0, 0, 2, 0]]),
        [0, 0],
        exact=True,
        k=[[0.0], [LN3], [5.0]],
        v=[[0.0], [1.0], [7.0]],
        mask=[[T, T, F]],
    ),
]
