"""Alignment of a decoder's states with an encoder's: Bahdanau et al. (2015) and Luong et al. (2015).

Letters: b batch, i decoder step, j source position, d width of a decoder state, c of an encoder state, a of the hidden
layer, e of the values. There are no heads: q is the decoder's state (s or h in the papers), k the encoder's.
"""

import numpy as np

from mha import shapes
from mha.reference.dot_product import is_visible, mix, softmax


def additive_scores(
    q: "Float[Array, '*b i d']",
    k: "Float[Array, '*b j c']",
    w_q: "Float[Array, 'd a']",
    w_k: "Float[Array, 'c a']",
    v: "Float[Array, ' a']",
) -> "Float[Array, '*b i j']":
    """Score each pair by vᵀ tanh(W q + U k), a network of one hidden layer (Bahdanau et al., 2015).

    Book: {eq}`additive-score`. Here W is `w_q` and U is `w_k`, both transposed: they stand to the right of the rows.
    """
    shapes.check_additive(q, k, w_q, w_k, v)
    q, k = shapes.float64("q", q), shapes.float64("k", k)
    with np.errstate(invalid="ignore"):  # a hidden key may hold anything
        hidden = np.tanh((q @ w_q)[..., :, None, :] + (k @ w_k)[..., None, :, :])
    return hidden @ v


def dot_scores(q: "Float[Array, '*b i d']", k: "Float[Array, '*b j d']") -> "Float[Array, '*b i j']":
    """Score each pair by q·k, without a scale (Luong et al., 2015).   Book: {eq}`luong-scores`."""
    shapes.check_dot(q, k)
    with np.errstate(invalid="ignore"):
        return np.einsum("...id,...jd->...ij", shapes.float64("q", q), shapes.float64("k", k))


def general_scores(
    q: "Float[Array, '*b i d']", k: "Float[Array, '*b j c']", w: "Float[Array, 'd c']"
) -> "Float[Array, '*b i j']":
    """Score each pair by qᵀ W k, a dot product after one projection (Luong et al., 2015).

    Book: {eq}`luong-scores`.
    """
    shapes.check_projection("q", q, "w", w)
    return dot_scores(shapes.float64("q", q) @ w, k)


def concat_scores(
    q: "Float[Array, '*b i d']", k: "Float[Array, '*b j c']", w: "Float[Array, 'd_c a']", v: "Float[Array, ' a']"
) -> "Float[Array, '*b i j']":
    """Score each pair by vᵀ tanh(W [q; k]): the additive score, its two matrices stacked (Luong et al., 2015).

    Book: {eq}`luong-scores`.
    """
    d = q.shape[-1]
    return additive_scores(q, k, w[:d], w[d:], v)


def predicted_centers(
    q: "Float[Array, '*b i d']", w: "Float[Array, 'd a']", v: "Float[Array, ' a']", lengths
) -> "Float[Array, '*b i']":
    """Predict where in the source each step looks: p = S · sigmoid(vᵀ tanh(W q)), S the source's length.

    `lengths` is S, one number or one for each sample (Luong et al., 2015, local-p).   Book: {eq}`predicted-center`.
    """
    share = 1 / (1 + np.exp(-np.tanh(shapes.float64("q", q) @ w) @ v))
    return np.asarray(lengths, np.float64)[..., None] * share


def alignment_weights(
    q: "Float[Array, '*b i d']",
    k: "Float[Array, '*b j c']",
    *,
    score,
    centers=None,
    window=None,
    k_positions=None,
    mask=None,
    q_start=None,
) -> "Float[Array, '*b i j']":
    """Return how much each decoder step takes from each source position.   Book: {eq}`alignment-weights`.

    `score(q, k)` gives the scores; a mask hides source positions, and a step that sees none has weights 0. With
    `centers` (…, i), p, and a half width D in `window`, keys no farther than D from p are seen, and the softmax over
    them is multiplied by a Gaussian around p with σ = D/2: local-p of Luong et al. (2015), {eq}`local-weights`; rows
    then sum to less than 1. `k_positions` says where the keys stand, their slots unless given. local-m needs no more
    than `mask=masks.window(D, D), q_start=0`.
    """
    call = shapes.check_alignment(q, k, mask=mask, q_start=q_start, centers=centers, window=window)
    return weighed(call, q, k, score, centers, window, k_positions)[0]


def context_vectors(
    q: "Float[Array, '*b i d']", k: "Float[Array, '*b j c']", v: "Float[Array, '*b j e']", *, score, **options
) -> "Float[Array, '*b i e']":
    """Sum the values by the weights of `alignment_weights`, whose options these are.   Book: {eq}`context-vector`.

    In the papers the values are the keys. A step that sees no source position gets 0.
    """
    centers, window, k_positions = (options.pop(name, None) for name in ("centers", "window", "k_positions"))
    call = shapes.check_alignment(q, k, v, centers=centers, window=window, **options)
    weights, see = weighed(call, q, k, score, centers, window, k_positions)
    return mix(weights, shapes.float64("v", v), see)


def weighed(call, q, k, score, centers, window, k_positions):
    """Return the weights, and which pairs are visible."""
    see = shapes.without_head(shapes.visible(call))
    scores = score(q, k) if see is None else np.where(see, score(q, k), -np.inf)
    if centers is None:
        return softmax(scores), is_visible(scores)
    positions = np.arange(k.shape[-2]) if k_positions is None else np.asarray(k_positions)
    distance = positions[..., None, :] - shapes.float64("centers", centers)[..., None]
    scores = np.where(np.abs(distance) <= window, scores, -np.inf)
    gaussian = np.exp(-(distance**2) / (2 * (window / 2) ** 2))
    return softmax(scores) * gaussian, is_visible(scores)
