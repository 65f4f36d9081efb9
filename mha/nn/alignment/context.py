"""Weights over the source and the context vectors that they mix, as in `mha.reference.alignment`.

A NaN or an infinity that a query sees makes its whole row NaN.
"""

import torch
from torch import nn

from mha import shapes
from mha.nn import checks, formula
from mha.nn.hidden import Selected, poisoned
from mha.nn.modes import own_precision
from mha.nn.visible import visible

__all__ = ["Alignment", "alignment_weights", "context_vectors"]


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
    `centers` (…, i), p, and a half width D in `window`, keys no farther than D from p are seen, and the softmax over
    them is multiplied by a Gaussian around p with σ = D/2: local-p of Luong et al. (2015), {eq}`local-weights`; rows
    then sum to less than 1. `k_positions` says where the keys stand, their slots unless given. local-m needs no more
    than `mask=masks.window(D, D), q_start=0`.
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
