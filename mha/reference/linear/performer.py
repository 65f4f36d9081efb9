"""FAVOR+, the attention of the Performer: random features that are positive and, in blocks, orthogonal.

For Gaussian w the mean of e^(w·q − |q|²/2) e^(w·k − |k|²/2) is e^(q·k): m draws of w are m features, and the product of
features estimates the weight of a softmax without bias (Choromanski et al. 2021, lemma 1).
"""

from dataclasses import dataclass, field

import numpy as np

from mha import shapes
from mha.approximations import ask
from mha.integers import count
from mha.options import hinted
from mha.random_matrices import gaussian, orthogonal_gaussian
from mha.reference.dot_product import attention, repeat_heads

__all__ = ["Performer", "positive_features"]


def positive_features(x: "Float[Array, '*b n d']", directions: "Float[Array, 'm d']") -> "Float[Array, '*b n m']":
    """Return ``e^(w·x − |x|²/2) / √m`` for each row w of `directions`.   Book: {eq}`favor`."""
    return np.exp(log_features(x, directions)) / np.sqrt(len(directions))


def log_features(x, directions):
    return np.einsum("...nd,md->...nm", x, directions) - (x**2).sum(-1, keepdims=True) / 2


@dataclass(frozen=True)
class Performer:
    """A core that estimates the weights of a softmax by `num_features` positive features of vectors of width `d_head`.

    `orthogonal` directions estimate with less variance than independent ones. All heads share them. The seed is an
    integer, and the same numbers come on every floor.
    """

    num_features: int
    d_head: int
    seed: int = 0
    orthogonal: bool = True
    directions: np.ndarray = field(init=False, repr=False, compare=False)
    supports = frozenset({"causal", "padding", "cross"})

    def __post_init__(self):
        draw = orthogonal_gaussian if self.orthogonal else gaussian
        sizes = count("num_features", self.num_features, least=1), count("d_head", self.d_head, least=1)
        object.__setattr__(self, "directions", draw(self.seed, *sizes))

    @hinted
    def __call__(self, q, k, v, **options):
        """Return what `attention` returns with the estimated weights.

        Features are divided by their largest, query by query and key by key: no key knows of later ones.
        """
        scale = ask(self, q, k, v, **options).call.scale
        call = shapes.check(q, k, v, **options)
        check_width(q, self)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # a hidden key may hold anything
            q_features = log_features(shapes.float64("q", q) * np.sign(scale) * abs(scale) ** 0.5, self.directions)
            k_features = log_features(repeat_heads(k, call) * abs(scale) ** 0.5, self.directions)
            largest = k_features.max(-1, keepdims=True)
            q_features = np.exp(q_features - q_features.max(-1, keepdims=True))
            k_features = np.exp(k_features - largest)
            scores = np.log(np.einsum("...im,...jm->...ij", q_features, k_features)) + largest[..., 0][..., None, :]
        nothing = np.zeros((*scores.shape[:-1], 1)), np.zeros((*scores.shape[:-2], call.n_k, 1))
        placed = {"mask": options.get("mask"), "q_start": options.get("q_start")}
        return attention(*nothing, repeat_heads(v, call), bias=scores, **placed)


def check_width(q, core):
    """Raise unless queries have the width that the directions were drawn for."""
    if q.shape[-1] != core.d_head:
        raise ValueError(f"q has width {q.shape[-1]} and the directions have {core.d_head}: expected equal widths")
