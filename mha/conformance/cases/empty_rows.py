"""A query that sees no key: output 0, weights 0, and no gradient that is not 0."""

import numpy as np

from mha.conformance.cases.build import INF, LN3, array, mixed, scored, sloped

T, F = True, False
EMPTY = [[T, T, F], [F, F, F]]

CASES = [
    mixed("an-empty-row-gives-zero", [[0.5, 0.5, 0], [0, 0, 0]], report="pytorch/pytorch#103749", mask=EMPTY),
    mixed(
        "a-sample-of-padding-gives-zero",
        [[[[0.5, 0.5]] * 3], [[[0, 0]] * 3]],
        report="pytorch/pytorch#41508",
        mask=[[[[T, T]]], [[[F, F]]]],
    ),
    mixed(
        "an-empty-causal-row-sees-no-future",
        [[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]],
        report="huggingface/transformers#27114",
        mask=[[F, F, F], [F, T, F], [F, T, T]],
    ),
    mixed("an-empty-row-in-one-head", [[[[0.5, 0.5]], [[0, 0]]]], mask=[[[[T, T]], [[F, F]]]]),
    scored(
        "a-bias-can-empty-a-row",
        [0, LN3],
        [0, 0],
        report="pytorch/pytorch#103963",
        bias=[[-INF, -INF]],
    ),
    scored("mask-and-bias-empty-a-row-together", [0, LN3], [0, 0], mask=[[T, F]], bias=[[-INF, 0.0]]),
    mixed(
        "an-empty-row-has-no-weights",
        [[0.5, 0.5, 0], [0, 0, 0]],
        report="pytorch/pytorch#41508",
        of="weights",
        mask=EMPTY,
    ),
    mixed(
        "weights-asked-for-an-empty-row-gives-zero",
        [[0.5, 0.5, 0], [0, 0, 0]],
        report="pytorch/pytorch#160064",
        of="beside weights",
        mask=EMPTY,
    ),
    scored(
        "an-empty-row-has-no-mass", [0, LN3], [-INF], report="facebookresearch/xformers#722", of="lse", mask=[[F, F]]
    ),
    sloped(
        "an-empty-row-has-no-gradient",
        lambda gradients: np.stack([gradients["q"][0, 0, 1, 0], gradients["q"][0, 0, 0, 0]]),
        [0, 3 / 16 * LN3],
        report="TransformerLensOrg/TransformerLens#389",
        q=[[1.0], [1.0]],
        mask=[[T, T], [F, F]],
    ),
    sloped(
        "empty-rows-give-keys-no-gradient",
        lambda gradients: np.concatenate([gradients[name].ravel() for name in ("q", "k", "v")]),
        [0] * 5,
        report="pytorch/pytorch#42323",
        exact=True,
        mask=[[F, F]],
    ),
    sloped(
        "an-empty-sample-leaves-the-others-gradient",
        lambda gradients: np.concatenate([gradients[name].ravel() for name in ("q", "k", "v")]),
        [3 / 16 * LN3, 0, -3 / 16, 3 / 16, 0, 0, 0.25, 0.75, 0, 0],
        report="pytorch/pytorch#152028",
        q=[[[[1.0]]]] * 2,
        k=[[[[0.0], [LN3]]]] * 2,
        v=[[[[0.0], [1.0]]]] * 2,
        d_output=array([[[[1.0]]], [[[0.0]]]]),
        mask=[[[[T, T]]], [[[F, F]]]],
    ),
]
