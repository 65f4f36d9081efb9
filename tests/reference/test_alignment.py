"""Alignment against the formulas of Bahdanau et al. (2015) and Luong et al. (2015), written out in loops."""

import math
from functools import partial

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import (
    additive_scores,
    alignment_weights,
    concat_scores,
    context_vectors,
    dot_scores,
    general_scores,
    predicted_centers,
)

D, C, A = 3, 5, 7


def draw(n_q=4, n_k=11, batch=(2,), seed=0):
    """Return queries, keys and values, and the parameters W, U, v."""
    make = np.random.default_rng(seed).standard_normal
    rows = make((*batch, n_q, D)), make((*batch, n_k, C)), make((*batch, n_k, 2))
    return rows, (0.3 * make((D, A)), 0.3 * make((C, A)), make(A))


def by_loops(q, k, pair_score):
    return np.array([[[pair_score(s, h) for h in keys] for s in queries] for queries, keys in zip(q, k, strict=True)])


def additive(w, u, v):
    """Bahdanau et al. (2015), A.1.2: e_ij = vᵀ tanh(W s_{i−1} + U h_j), W (a, d) and U (a, c)."""
    return lambda s, h: sum(v[n] * math.tanh(w[n] @ s + u[n] @ h) for n in range(A))


def weights_by_loops(scores, see, centers=None, window=None):
    """Luong et al. (2015): equation 7, softmax over what is seen; equation 10, times a Gaussian of σ = D/2."""
    out = np.zeros_like(scores)
    for b, i in np.ndindex(scores.shape[:2]):
        near = [
            j
            for j in range(scores.shape[2])
            if see[b][i][j] and (centers is None or centers[b, i] - window <= j <= centers[b, i] + window)
        ]
        total = sum(math.exp(scores[b, i, j]) for j in near)
        for j in near:
            out[b, i, j] = math.exp(scores[b, i, j]) / total
            if centers is not None:
                sigma = window / 2
                out[b, i, j] *= math.exp(-((j - centers[b, i]) ** 2) / (2 * sigma**2))
    return out


def test_additive_scores_are_the_formula():
    (q, k, _), (w, u, v) = draw()
    found = additive_scores(q, k, w, u, v)
    assert_equal(found, by_loops(q, k, additive(w.T, u.T, v)), atol=1e-13)
    with pytest.raises(AssertionError):  # without the nonlinearity, a query only adds the same to all its scores
        assert_equal(found, (q @ w @ v)[..., None] + (k @ u @ v)[:, None], atol=1e-3)


def test_luong_scores_are_the_formulas():
    (q, k, _), (w, u, v) = draw()
    mix = np.random.default_rng(1).standard_normal((D, C))
    assert_equal(dot_scores(q, k[..., :D]), by_loops(q, k[..., :D], lambda h, s: h @ s), atol=1e-13)
    assert_equal(general_scores(q, k, mix), by_loops(q, k, lambda h, s: h @ mix @ s), atol=1e-13)
    stacked = np.concatenate([w, u])

    def concat(h, s):
        return v @ np.tanh(stacked.T @ np.concatenate([h, s]))

    assert_equal(concat_scores(q, k, stacked, v), by_loops(q, k, concat), atol=1e-13)
    with pytest.raises(AssertionError):  # Luong's dot has no scale
        assert_equal(dot_scores(q, k[..., :D]), by_loops(q, k[..., :D], lambda h, s: h @ s / D**0.5), atol=1e-3)
    with pytest.raises(AssertionError):  # the state stands before the source in [h; s]
        assert_equal(concat_scores(q, k, np.concatenate([u, w]), v), by_loops(q, k, concat), atol=1e-3)


def test_predicted_centers_are_the_formula():
    (q, _, _), (w, _, v) = draw()
    lengths = np.array([11, 6])
    expected = [
        [s / (1 + math.exp(-sum(v[n] * math.tanh(w[:, n] @ h) for n in range(A)))) for h in queries]
        for s, queries in zip(lengths, q, strict=True)
    ]
    assert_equal(predicted_centers(q, w, v, lengths), expected, atol=1e-13)
    assert_equal(predicted_centers(q, w, v, 11)[0], expected[0], atol=1e-13)


def test_global_weights_and_contexts():
    (q, k, v), parameters = draw()
    keep = np.arange(11) < np.array([11, 6])[:, None]
    score, scores = partial(additive_with, parameters), additive_scores(q, k, *parameters)
    expected = weights_by_loops(scores, np.broadcast_to(keep[:, None], scores.shape))
    options = {"score": score, "mask": masks.key_padding(keep)}
    assert_equal(alignment_weights(q, k, **options), expected, atol=1e-14)
    assert_equal(context_vectors(q, k, v, **options), np.einsum("bij,bje->bie", expected, v), atol=1e-13)
    assert_equal(alignment_weights(q, k, score=score).sum(-1), np.ones((2, 4)), atol=1e-14)


def test_local_predictive_weights():
    (q, k, v), parameters = draw()
    keep = np.arange(11) < np.array([11, 6])[:, None]
    centers = np.array([[0.0, 3.4, 10.9, 25.0], [0.2, 2.0, 5.9, 4.5]])  # at 25 nothing is near
    score, scores = partial(additive_with, parameters), additive_scores(q, k, *parameters)
    expected = weights_by_loops(scores, np.broadcast_to(keep[:, None], scores.shape), centers, 2)
    options = {"score": score, "mask": masks.key_padding(keep), "centers": centers, "window": 2}
    found = alignment_weights(q, k, **options)
    assert_equal(found, expected, atol=1e-14)
    assert_equal(found[0, 3], np.zeros(11))
    assert_equal(context_vectors(q, k, v, **options), np.einsum("bij,bje->bie", expected, v), atol=1e-13)
    wide = weights_by_loops(scores, np.broadcast_to(keep[:, None], scores.shape), centers, 4)
    with pytest.raises(AssertionError):  # σ = D would make the Gaussian of a window twice as wide
        assert_equal(found, np.where(expected > 0, wide, 0), atol=1e-3)


def test_local_monotonic_weights_are_a_window():
    (q, k, _), parameters = draw()
    near = np.abs(np.arange(4)[:, None] - np.arange(11)) <= 2
    scores = additive_scores(q, k, *parameters)
    expected = weights_by_loops(scores, np.broadcast_to(near, scores.shape))
    options = {"score": partial(additive_with, parameters), "mask": masks.window(2, 2)}
    assert_equal(alignment_weights(q, k, q_start=0, **options), expected, atol=1e-14)
    with pytest.raises(AssertionError):  # by default the last step would stand at the last source position
        assert_equal(alignment_weights(q, k, **options), expected, atol=1e-3)


@pytest.mark.parametrize("local", [False, True])
def test_hidden_positions_may_hold_anything(local):
    (q, k, v), parameters = draw()
    keep = np.arange(11) < np.array([11, 6])[:, None]
    options = {"score": partial(additive_with, parameters)} | ({"centers": q[..., 0] + 3, "window": 2} if local else {})
    alone = context_vectors(
        q[1:], k[1:, :6], v[1:, :6], **{**options, **({"centers": q[1:, :, 0] + 3} if local else {})}
    )
    k[1, 6:], v[1, 6:] = np.nan, np.inf
    padded = context_vectors(q, k, v, mask=masks.key_padding(keep), **options)
    assert_equal(padded[1:], alone, atol=1e-14, label="padded as unpadded")


def test_left_padding_moves_the_positions():
    (q, k, v), parameters = draw()
    options = {"score": partial(additive_with, parameters), "centers": np.abs(q[..., 0]) * 3, "window": 2}
    expected = context_vectors(q, k, v, **options)
    k, v = (np.concatenate([np.full((2, 3, x.shape[-1]), np.nan), x], 1) for x in (k, v))
    keep = np.broadcast_to(np.arange(14) >= 3, (2, 14))
    places = masks.padding_positions(keep)
    found = context_vectors(q, k, v, mask=masks.key_padding(keep), k_positions=places, **options)
    assert_equal(found, expected, atol=1e-14)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (1, 1), (5, 2)], ids=str)
def test_short_sequences(lengths):
    (q, k, v), parameters = draw(*lengths)
    found = context_vectors(q, k, v, score=partial(additive_with, parameters))
    assert found.shape == (2, lengths[0], 2)
    if lengths[1] == 0:
        assert_equal(found, np.zeros_like(found), label="no source, no context")


def test_a_step_that_sees_nothing_gets_zero():
    (q, k, v), parameters = draw()
    see = np.ones((4, 11), bool)
    see[2] = False
    options = {"score": partial(additive_with, parameters), "mask": see}
    assert_equal(context_vectors(q, k, v, **options)[:, 2], np.zeros((2, 2)))
    assert_equal(alignment_weights(q, k, **options)[:, 2], np.zeros((2, 11)))


def test_cached_as_whole():
    """A step alone has the row that it has among the others."""
    (q, k, v), parameters = draw()
    options = {"score": partial(additive_with, parameters)}
    whole = context_vectors(q, k, v, **options)
    for i in range(4):
        assert_equal(context_vectors(q[:, i : i + 1], k, v, **options), whole[:, i : i + 1], atol=1e-14)


def additive_with(parameters, q, k):
    return additive_scores(q, k, *parameters)


FAULTS = {
    "no length axis": (lambda q, k, v: alignment_weights(q[0, 0], k, score=dot_scores), r"q has shape \(3,\)"),
    "values": (
        lambda q, k, v: context_vectors(q, k, v[:, 1:], score=dot_scores),
        "v has length 10 and k has length 11",
    ),
    "window alone": (
        lambda q, k, v: alignment_weights(q, k, score=dot_scores, window=2),
        "window is given and centers",
    ),
    "no width": (
        lambda q, k, v: alignment_weights(q, k, score=dot_scores, window=0, centers=q[..., 0]),
        "window is 0: expected a positive number",
    ),
    "centers": (
        lambda q, k, v: alignment_weights(q, k, score=dot_scores, window=2, centers=np.zeros((2, 3))),
        r"centers has shape \(2, 3\): expected \(2, 4\)",
    ),
    "dot": (lambda q, k, v: dot_scores(q, k), "k has width 5 and q has width 3: .* general_scores"),
    "general": (lambda q, k, v: general_scores(q, k, np.zeros((5, 3))), r"w has shape \(5, 3\): expected \(3, d_out\)"),
    "additive": (
        lambda q, k, v: additive_scores(q, k, np.zeros((3, 7)), np.zeros((5, 6)), np.zeros(7)),
        r"w_k has shape \(5, 6\): expected \(5, 7\)",
    ),
    "combine": (
        lambda q, k, v: additive_scores(q, k, np.zeros((3, 7)), np.zeros((5, 7)), np.zeros(6)),
        r"v has shape \(6,\): expected \(7,\)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(name):
    call, message = FAULTS[name]
    with pytest.raises(ValueError, match=message):
        call(*draw()[0])
