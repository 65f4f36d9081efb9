"""FAVOR+, the attention of the Performer: random features that are positive and, in blocks, orthogonal.

Same meaning as `mha.reference`, in time and memory proportional to the length.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from mha.approximations import ask
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import alike, row_max, wide
from mha.nn.linear.feature_maps import average
from mha.nn.linear.visible_keys import hidden_as_zeros, visible_keys
from mha.nn.modes import own_precision
from mha.options import hinted
from mha.random_matrices import gaussian, orthogonal_gaussian

__all__ = ["Performer", "positive_features"]


def positive_features(x: "Float[Tensor, '*b n d']", directions: "Float[Tensor, 'm d']") -> "Float[Tensor, '*b n m']":
    """Return ``e^(w·x − |x|²/2) / √m`` for each row w of `directions`.   Book: {eq}`favor`."""
    return log_features(x, directions).exp() / len(directions) ** 0.5


def log_features(x, directions):
    return x @ directions.mT - x.square().sum(-1, keepdim=True) / 2


@dataclass(frozen=True)
class Performer:
    """A core that estimates the weights of a softmax by `num_features` positive features of vectors of width `d_head`.

    `orthogonal` directions estimate with less variance than independent ones. All heads share them. The seed is an
    integer, and the same numbers come on every floor. Choromanski et al. (2021).
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
        """Return what `mha.nn.attention` returns with the estimated weights."""
        checks.tensors(q=q, k=k, v=v)
        asked = ask(self, q, k, v, **options)
        if q.shape[-1] != self.d_head:
            raise ValueError(f"q has width {q.shape[-1]} and the directions have {self.d_head}: expected equal widths")
        dtype, scale = v.dtype, asked.call.scale
        with own_precision(q):
            shown = visible_keys(asked, q.device)
            q, k, v = map(wide, alike(q, k, v))
            k, v = hidden_as_zeros(shown, k, v)
            directions = torch.as_tensor(self.directions, dtype=q.dtype, device=q.device)
            root = abs(scale) ** 0.5
            q = log_features(q * (root if scale > 0 else -root), directions)
            k = log_features(k * root, directions)
            k = k if shown is None else k.masked_fill(~shown, -torch.inf)
            q = (q - row_max(q.detach())).exp()
            k, log_decay = (running if asked.causal else at_once)(k)
            return average(asked, q, k, v, log_decay).to(dtype)


def at_once(k):
    """Return features of all keys from their logarithms, divided by the largest of them, and no decay."""
    largest = row_max(k.detach().flatten(-2))[..., None]
    return (k - largest.masked_fill(largest == -torch.inf, 0.0)).exp(), None


def running(k):
    """Return features divided by the largest so far, and the logarithms of what its growth leaves of those before."""
    none_yet = k.new_full((*k.shape[:-2], 1), -torch.inf)
    largest = torch.cat([none_yet, k.detach().amax(-1)], -1).cummax(-1).values
    before, largest = largest[..., :-1], largest[..., 1:]
    log_decay = (before - largest).masked_fill(before == -torch.inf, 0.0)
    return (k - largest.masked_fill(largest == -torch.inf, 0.0)[..., None]).exp(), log_decay
