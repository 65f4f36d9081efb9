"""Derivatives of the smallest call with a slope: output σ(s) = ¾ at the score s = q · (k₁ − k₀) = ln 3.

σ' = σ (1 − σ) = 3/16 and σ'' = σ' (1 − 2σ) = −3/32.
"""

import numpy as np

from mha.conformance.case import Relation
from mha.conformance.cases.build import LN3, sloped

T, F = True, False
MANY = 131  # more than a tile of most kernels
SLOPE, BEND = 3 / 16, -3 / 32
OF_SLOPE = [BEND * LN3**2, -BEND * LN3 - SLOPE, BEND * LN3 + SLOPE, -SLOPE * LN3, SLOPE * LN3]  # by q, k₀, k₁, v₀, v₁
ALONG_Q = {"q": [[1.0]], "k": [[0.0], [0.0]], "v": [[0.0], [0.0]]}
HIDDEN_THIRD = {"k": [[0.0], [LN3], [5.0]], "v": [[0.0], [1.0], [7.0]], "mask": [[T, T, F]]}
ALONG_Q_OF_THREE = {"q": [[1.0]], "k": [[0.0]] * 3, "v": [[0.0]] * 3}


def flat(parts):
    return np.concatenate([np.ravel(x) for x in parts])


def of_inputs(gradients):
    return flat(gradients[name] for name in "qkv")


def draw():
    rng = np.random.default_rng(13)
    return *rng.normal(size=(3, 1, 2, 3, 2)), rng.normal(size=(1, 2, 3, 2))


def by_differences(subject, **options):
    """The library's own gradients against central differences of its own output."""
    q, k, v, d_output = draw()
    differences = subject.differences(q, k, v, d_output=d_output, **options)
    return of_inputs(differences), of_inputs(subject.gradients(q, k, v, d_output=d_output, **options))


def strided(subject):
    """The same numbers with the lengths innermost in memory."""
    q, k, v, d_output = draw()
    turned = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (q, k, v)]
    expected = subject.gradients(q, k, v, d_output=d_output)
    return of_inputs(expected), of_inputs(subject.gradients(*turned, d_output=d_output))


CASES = [
    sloped("the-gradient-of-the-query", lambda gradients: gradients["q"].ravel(), [SLOPE * LN3]),
    sloped("the-gradient-of-the-keys", lambda gradients: gradients["k"].ravel(), [-SLOPE, SLOPE]),
    sloped("the-gradient-of-the-values-is-the-weights", lambda gradients: gradients["v"].ravel(), [0.25, 0.75]),
    sloped("the-gradient-of-a-masked-call", of_inputs, [SLOPE * LN3, -SLOPE, SLOPE, 0, 0.25, 0.75, 0], **HIDDEN_THIRD),
    sloped(
        "the-scale-is-in-the-gradient",
        of_inputs,
        [SLOPE * LN3, -SLOPE / 2, SLOPE / 2, 0.25, 0.75],
        k=[[0.0], [2 * LN3]],
        scale=0.5,
    ),
    sloped("one-key-passes-the-gradient-on", of_inputs, [0, 0, 1], k=[[2.0]], v=[[7.0]]),
    sloped(
        "many-keys-have-their-gradient",
        lambda gradients: flat(gradients[name] for name in "kv"),
        flat([np.arange(MANY) / (MANY - 1) - 0.5, np.ones(MANY)]) / MANY,
        k=np.zeros((MANY, 1)),
        v=np.arange(MANY)[:, None] / (MANY - 1),
    ),
    sloped(
        "many-queries-add-to-a-gradient",
        lambda gradients: flat(gradients[name] for name in "kv"),
        [-SLOPE, SLOPE, 0.25, 0.75],
        q=np.ones((MANY, 1)),
        d_output=1 / MANY,
    ),
    sloped(
        "samples-and-heads-add-to-a-shared-bias",
        lambda gradients: gradients["bias"].ravel(),
        [-4 * SLOPE, 4 * SLOPE],
        q=np.ones((2, 2, 1, 1)),
        k=np.tile([[0.0], [2 * LN3]], (2, 2, 1, 1)),
        v=np.tile([[0.0], [1.0]], (2, 2, 1, 1)),
        scale=0.5,
        bias=[[0.0, 0.0]],
    ),
    Relation(name="gradients-match-differences", needs=frozenset({"gradient"}), run=by_differences, differences=True),
    Relation(
        name="masked-gradients-match-differences",
        needs=frozenset({"gradient", "mask"}),
        run=lambda subject: by_differences(subject, mask=np.array([[T, F, T], [F, F, F], [T, T, T]])),
        differences=True,
    ),
    Relation(name="memory-order-changes-no-gradient", needs=frozenset({"gradient"}), run=strided),
    sloped(
        "a-second-derivative",
        of_inputs,
        OF_SLOPE,
        report="pytorch/pytorch#116350",
        order="second-derivative",
        tangents=ALONG_Q,
    ),
    sloped(
        "a-second-derivative-with-a-mask",
        of_inputs,
        [*OF_SLOPE[:3], 0, *OF_SLOPE[3:], 0],
        report="pytorch/pytorch#116350",
        order="second-derivative",
        tangents=ALONG_Q_OF_THREE,
        **HIDDEN_THIRD,
    ),
    sloped(
        "a-second-derivative-of-an-empty-row",
        of_inputs,
        [0] * 5,
        order="second-derivative",
        tangents=ALONG_Q,
        mask=[[F, F]],
    ),
    sloped(
        "a-forward-derivative",
        np.ravel,
        [SLOPE * LN3],
        report="pytorch/pytorch#98164",
        order="forward-derivative",
        tangents=ALONG_Q,
    ),
    sloped(
        "a-forward-derivative-with-a-mask",
        np.ravel,
        [SLOPE * LN3],
        report="SHI-Labs/NATTEN#68",
        order="forward-derivative",
        tangents=ALONG_Q_OF_THREE,
        **HIDDEN_THIRD,
    ),
    sloped(
        "a-forward-derivative-of-an-empty-row",
        np.ravel,
        [0],
        order="forward-derivative",
        tangents=ALONG_Q,
        mask=[[F, F]],
    ),
]
