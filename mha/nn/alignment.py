"""Alignment of a decoder's states with an encoder's: Bahdanau et al. (2015) and Luong et al. (2015), as in `reference`.

A score Module has two halves: `keys(k)` is what the source needs once, and `score(q, keys)` what each step adds. A NaN
or an infinity that a query sees makes its whole row NaN.
"""

import torch
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks, formula
from mha.nn.hidden import Selected, poisoned
from mha.nn.modes import own_precision
from mha.nn.visible import visible

__all__ = [
    "AdditiveScore",
    "Alignment",
    "CenterPredictor",
    "ConcatScore",
    "DotScore",
    "GeneralScore",
    "additive_scores",
    "alignment_weights",
    "concat_scores",
    "context_vectors",
    "dot_scores",
    "general_scores",
    "predicted_centers",
]


def additive_scores(
    q: "Float[Tensor, '*b i d']",
    k: "Float[Tensor, '*b j c']",
    w_q: "Float[Tensor, 'd a']",
    w_k: "Float[Tensor, 'c a']",
    v: "Float[Tensor, ' a']",
) -> "Float[Tensor, '*b i j']":
    """Score each pair by vᵀ tanh(W q + U k) (Bahdanau et al. 2015).   Book: {eq}`additive-score`"""
    checks.tensors(q=q, k=k, w_q=w_q, w_k=w_k, v=v)
    shapes.check_additive(q, k, w_q, w_k, v)
    return _tanh_scores(q @ w_q, k @ w_k, v)


def dot_scores(q: "Float[Tensor, '*b i d']", k: "Float[Tensor, '*b j d']") -> "Float[Tensor, '*b i j']":
    """Score each pair by q·k, without a scale (Luong et al. 2015).   Book: {eq}`luong-scores`"""
    checks.tensors(q=q, k=k)
    shapes.check_dot(q, k)
    with own_precision(q):
        return formula.wide(q) @ formula.wide(k).mT


def general_scores(
    q: "Float[Tensor, '*b i d']", k: "Float[Tensor, '*b j c']", w: "Float[Tensor, 'd c']"
) -> "Float[Tensor, '*b i j']":
    """Score each pair by qᵀ W k: a dot product after one projection (Luong et al. 2015).   Book: {eq}`luong-scores`"""
    shapes.check_projection("q", q, "w", w)
    return dot_scores(q @ w, k)


def concat_scores(
    q: "Float[Tensor, '*b i d']", k: "Float[Tensor, '*b j c']", w: "Float[Tensor, 'd_c a']", v: "Float[Tensor, ' a']"
) -> "Float[Tensor, '*b i j']":
    """Score each pair by vᵀ tanh(W [q; k]): the additive score, its two matrices stacked (Luong et al. 2015).

    Book: {eq}`luong-scores`
    """
    d = q.shape[-1]
    return additive_scores(q, k, w[:d], w[d:], v)


def predicted_centers(
    q: "Float[Tensor, '*b i d']", w: "Float[Tensor, 'd a']", v: "Float[Tensor, ' a']", lengths
) -> "Float[Tensor, '*b i']":
    """Predict where in the source each step looks: p = S · sigmoid(vᵀ tanh(W q)), S the source's length.

    `lengths` is S, one number or one for each sample (Luong et al. 2015, local-p).   Book: {eq}`predicted-center`
    """
    checks.tensors(q=q, w=w, v=v)
    share = torch.sigmoid(torch.tanh(q @ w) @ v)
    return torch.as_tensor(lengths, dtype=share.dtype, device=q.device)[..., None] * share


def alignment_weights(
    q: "Float[Tensor, '*b i d']",
    k: "Float[Tensor, '*b j c']",
    *,
    score,
    centers=None,
    window=None,
    k_positions=None,
    mask=None,
    q_start=None,
) -> "Float[Tensor, '*b i j']":
    """Return how much each decoder step takes from each source position.   Book: {eq}`alignment-weights`

    `score(q, k)` gives the scores; a mask hides source positions, and a step that sees none has weights 0. With
    `centers` (…, i) and a half width D in `window`, only |j − p| ≤ D is seen, and the softmax over it is multiplied by
    a Gaussian around p with σ = D/2: local-p of Luong et al. (2015), {eq}`local-weights`; rows then sum to less
    than 1. `k_positions` says where the keys stand, their slots unless given. local-m needs no more than
    `mask=masks.window(D, D), q_start=0`.
    """
    checks.tensors(q=q, k=k)
    call = shapes.check_alignment(q, k, mask=mask, q_start=q_start, centers=centers, window=window)
    p, _, poison = _weights(call, q, k, None, score, centers, window, k_positions)
    p = p.to(q.dtype)
    return p if poison is None else p + poison


def context_vectors(
    q: "Float[Tensor, '*b i d']", k: "Float[Tensor, '*b j c']", v: "Float[Tensor, '*b j e']", *, score, **options
) -> "Float[Tensor, '*b i e']":
    """Sum the values by the weights of `alignment_weights`, whose options these are.   Book: {eq}`context-vector`

    In the papers the values are the keys. A step that sees no source position gets 0.
    """
    checks.tensors(q=q, k=k, v=v)
    centers, window, k_positions = (options.pop(name, None) for name in ("centers", "window", "k_positions"))
    call = shapes.check_alignment(q, k, v, centers=centers, window=window, **options)
    p, v, poison = _weights(call, q, k, v, score, centers, window, k_positions)
    with own_precision(q):
        out = (p @ formula.wide(v)).to(v.dtype)
    return out if poison is None else out + poison


class AdditiveScore(nn.Module):
    """The additive score with its parameters: W, U and v, none with a bias."""

    def __init__(self, d_query, d_key, d_hidden, *, device=None, dtype=None):
        super().__init__()
        options = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_query, count("d_hidden", d_hidden, least=1), **options)
        self.k_proj = nn.Linear(d_key, d_hidden, **options)
        self.combine = nn.Linear(d_hidden, 1, **options)

    def keys(self, k):
        """Return U k, which all steps share (Bahdanau et al. 2015, A.1.2)."""
        return self.k_proj(k)

    def forward(self, q, keys):
        return _tanh_scores(self.q_proj(q), keys, self.combine.weight[0])


class ConcatScore(AdditiveScore):
    """Luong's concat score: the halves of its W are the two matrices of the additive score."""


class DotScore(nn.Module):
    """Luong's dot score, which has no parameters."""

    def keys(self, k):
        return k

    def forward(self, q, keys):
        return dot_scores(q, keys)


class GeneralScore(nn.Module):
    """Luong's general score: keys are projected to the width of the queries, once for all steps."""

    def __init__(self, d_query, d_key, *, device=None, dtype=None):
        super().__init__()
        self.k_proj = nn.Linear(d_key, d_query, bias=False, device=device, dtype=dtype)

    def keys(self, k):
        return self.k_proj(k)

    def forward(self, q, keys):
        return dot_scores(q, keys)


class CenterPredictor(nn.Module):
    """Where a step looks: the parameters of `predicted_centers`."""

    def __init__(self, d_query, d_hidden, *, device=None, dtype=None):
        super().__init__()
        options = {"bias": False, "device": device, "dtype": dtype}
        self.proj = nn.Linear(d_query, count("d_hidden", d_hidden, least=1), **options)
        self.combine = nn.Linear(d_hidden, 1, **options)

    def forward(self, q, lengths):
        return predicted_centers(q, self.proj.weight.mT, self.combine.weight[0], lengths)


class Alignment(nn.Module):
    """Context vectors by a score; local, in the sense of local-p, where a predictor and a half width are given."""

    def __init__(self, score, *, predictor=None, window=None):
        super().__init__()
        if (predictor is None) != (window is None):
            raise ValueError(f"window is {window!r} and predictor is {predictor!r}: expected both, or neither")
        self.score, self.predictor = score, predictor
        self.window = None if window is None else checks.positive("window", window)

    def forward(self, q, k, v=None, *, mask=None, q_start=None, lengths=None, keys=None):
        """Return (…, i, e). The values are the keys unless given, `lengths` S of each sample, all slots unless given.

        `keys` is `score.keys(k)` where it was computed before: then no key may hold NaN, hidden or not.
        """
        options = {"mask": mask, "q_start": q_start} | self._local(q, k, lengths)
        score, rows = (self._score, k) if keys is None else (self.score, keys)
        return context_vectors(q, rows, k if v is None else v, score=score, **options)

    def weights(self, q, k, *, mask=None, q_start=None, lengths=None):
        """Return the weights that `forward` mixes by: (…, i, j)."""
        options = {"mask": mask, "q_start": q_start} | self._local(q, k, lengths)
        return alignment_weights(q, k, score=self._score, **options)

    def _score(self, q, k):
        return self.score(q, self.score.keys(k))

    def _local(self, q, k, lengths):
        if self.predictor is None:
            return {}
        lengths = k.shape[-2] if lengths is None else lengths
        return {"centers": self.predictor(q, lengths), "window": self.window}


def _tanh_scores(q, k, v):
    with own_precision(q):
        hidden = torch.tanh(formula.wide(q)[..., :, None, :] + formula.wide(k)[..., None, :, :])
        return hidden @ formula.wide(v)


def _weights(call, q, k, v, score, centers, window, k_positions):
    """Return the weights, the values, and what to add to the rows of the result (None if nothing)."""
    see = visible(call, q.device)
    distance = None
    if centers is not None:
        slots = torch.arange(k.shape[-2], device=q.device) if k_positions is None else k_positions
        distance = slots[..., None, :] - centers[..., None]
        near = (distance.detach().abs() <= window)[..., None, :, :]
        see = near if see is None else see & near
    given = Selected(q, k, v)
    if see is not None:
        given = poisoned(*(x if x is None else x[..., None, :, :] for x in (q, k, v)), see)
        given = Selected(*map(shapes.without_head, given[:4]))
        see = shapes.without_head(see)
    scores = formula.wide(score(given.q, given.k))
    with own_precision(q):
        p = formula.softmax(scores if see is None else torch.where(see, scores, -torch.inf))
        if distance is not None:
            p = p * torch.exp(-(distance**2) / (2 * (window / 2) ** 2))
    return p, given.v, given.poison
