"""The causal mask as an option of its own: which key stands beside the last query, and what else hides."""

import numpy as np

from mha.conformance.cases.build import LN3, mixed, one_value, scored

T, F = True, False
LAST_KEY = {"report": "pytorch/pytorch#108108", "causal": True}
FIRST_TWO = [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]
TRIANGLE = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3]

CASES = [
    mixed("causal-square", TRIANGLE, causal=True),
    mixed("fewer-queries-than-keys", [[0.25] * 4 + [0], [0.2] * 5], conventions={"upper-left": FIRST_TWO}, **LAST_KEY),
    mixed(
        "more-queries-than-keys",
        [[0, 0]] * 3 + [[1, 0], [0.5, 0.5]],
        conventions={"upper-left": [[1, 0]] + [[0.5, 0.5]] * 4},
        **LAST_KEY,
    ),
    mixed(
        "a-decoding-step-sees-every-key",
        [[0.2] * 5],
        report="google/flax#5591",
        causal=True,
        conventions={"upper-left": [[1, 0, 0, 0, 0]]},
    ),
    mixed(
        "causal-and-mask-intersect",
        [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]],
        report="pytorch/pytorch#100709",
        causal=True,
        mask=[[T, T, F]] * 3,
    ),
    mixed("causal-beside-a-full-mask", TRIANGLE, report="pytorch/pytorch#99282", causal=True, mask=[[T, T, T]] * 3),
    mixed(
        "causal-and-a-hidden-first-key",
        [[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]],
        report="onnx/onnx#8054",
        causal=True,
        mask=[[F, T, T]] * 3,
    ),
    mixed("causal-and-bias", [[1, 0], [0.25, 0.75]], causal=True, bias=[[0.0, 0.0], [0.0, LN3]]),
    mixed(
        "causal-with-weights",
        TRIANGLE,
        report="keras-team/keras#23038",
        of="beside weights",
        causal=True,
    ),
    mixed("causal-weights", TRIANGLE, report="pytorch/pytorch#118972", of="weights", causal=True),
    mixed("causal-with-scale-zero", [[1, 0], [0.5, 0.5]], causal=True, scale=0.0),
    one_value("causal-with-negative-scale", [1, 1], [0, LN3], [0, 1], [0, 0.25], causal=True, scale=-1.0),
    mixed("queries-start-where-told", FIRST_TWO, causal=True, q_start=0),
    mixed("queries-start-in-the-middle", [[0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0]], causal=True, q_start=1),
    mixed(
        "samples-start-apart",
        [[[[1, 0, 0]]], [[[1 / 3] * 3]]],
        report="huggingface/transformers#22161",
        causal=True,
        q_start=np.array([0, 2]),
    ),
    scored("a-single-token-sees-itself", [LN3], [1], causal=True),
]
