"""How well a decoder's state and an encoder's match: Bahdanau et al. (2015) and Luong et al. (2015).

A score Module has two halves: `keys(k)` is what the source needs once, and `score(q, keys)` what each step adds.
"""

import torch
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks, formula
from mha.nn.modes import own_precision

__all__ = [
    "AdditiveScore",
    "ConcatScore",
    "DotScore",
    "GeneralScore",
    "additive_scores",
    "concat_scores",
    "dot_scores",
    "general_scores",
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
        """Return the scores (…, i, j)."""
        return _tanh_scores(self.q_proj(q), keys, self.combine.weight[0])


class ConcatScore(AdditiveScore):
    """Luong's concat score: the halves of its W are the two matrices of the additive score."""


class DotScore(nn.Module):
    """Luong's dot score, which has no parameters."""

    def keys(self, k):
        """Return the keys themselves."""
        return k

    def forward(self, q, keys):
        """Return the scores (…, i, j)."""
        return dot_scores(q, keys)


class GeneralScore(nn.Module):
    """Luong's general score: keys are projected to the width of the queries, once for all steps."""

    def __init__(self, d_query, d_key, *, device=None, dtype=None):
        super().__init__()
        self.k_proj = nn.Linear(d_key, d_query, bias=False, device=device, dtype=dtype)

    def keys(self, k):
        """Return W k, which all steps share."""
        return self.k_proj(k)

    def forward(self, q, keys):
        """Return the scores (…, i, j)."""
        return dot_scores(q, keys)


def _tanh_scores(q, k, v):
    with own_precision(q):
        hidden = torch.tanh(formula.wide(q)[..., :, None, :] + formula.wide(k)[..., None, :, :])
        return hidden @ formula.wide(v)
