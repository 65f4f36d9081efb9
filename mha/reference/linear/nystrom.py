"""Nyström attention: a softmax matrix rebuilt from the rows and columns of a few landmarks (Xiong et al. 2021)."""

from dataclasses import dataclass

import numpy as np

from mha import shapes
from mha.approximations import ask
from mha.integers import count
from mha.options import hinted
from mha.reference.dot_product import repeat_heads, softmax
from mha.reference.linear.visible_keys import visible_keys

__all__ = ["Nystrom", "convolved_values", "iterative_pseudo_inverse", "segment_means"]


def segment_means(x: "Float[Array, '*b n d']", num_segments: int, shown=True):
    """Cut the rows that are shown into segments of equal length, up to one row, and return the mean of each.

    `shown` broadcasts to (…, n, 1). Fewer rows than segments make as many means, and zeros behind them.
    """
    shown = np.broadcast_to(shown, (*np.shape(shown)[:-2], x.shape[-2], 1))
    rank, size = np.cumsum(shown, -2) - 1, shown.sum(-2, keepdims=True)
    segment = rank * np.minimum(num_segments, size) // np.maximum(size, 1)
    inside = shown & (segment == np.arange(num_segments))
    sums = np.einsum("...ns,...nd->...sd", inside.astype(np.float64), np.where(shown, x, 0.0))
    counts = inside.sum(-2)[..., None]
    return sums / np.maximum(counts, 1), counts > 0


def iterative_pseudo_inverse(a: "Float[Array, '*b i j']", iterations: int = 6) -> "Float[Array, '*b j i']":
    """Approach the Moore–Penrose inverse of matrices without negative entries whose rows sum to 1, or to 0.

    From Z = Aᵀ / ‖A‖₁ on, Z ← Z (13 − A Z (15 − A Z (7 − A Z))) / 4 (Razavi et al. 2014). The norm, the largest sum
    of a column, is each matrix's own.
    """
    one = np.eye(a.shape[-2])
    largest = a.sum(-2, keepdims=True).max(-1, keepdims=True, initial=0.0)
    z = np.swapaxes(a, -1, -2) / np.where(largest == 0, 1.0, largest)
    for _ in range(iterations):
        az = a @ z
        z = 0.25 * z @ (13 * one - az @ (15 * one - az @ (7 * one - az)))
    return z


def convolved_values(v: "Float[Array, '*b h n e']", kernels: "Float[Array, 'h size']") -> "Float[Array, '*b h n e']":
    """Return sums of each value and its neighbours, with the weights of its head: what the authors add to the output.

    The size is odd, and outside of the sequence there are zeros; padding must hold zeros too.
    """
    shapes.check_kernels(v, kernels)
    size = kernels.shape[-1]
    wide = np.pad(v, [(0, 0)] * (v.ndim - 2) + [(size // 2, size // 2), (0, 0)])
    return np.einsum("...hnes,hs->...hne", np.lib.stride_tricks.sliding_window_view(wide, size, axis=-2), kernels)


@dataclass(frozen=True)
class Nystrom:
    """A core that lets queries meet keys over `num_landmarks` means of queries and as many of keys.

    softmax(Q K̃ᵀ) softmax(Q̃ K̃ᵀ)⁺ softmax(Q̃ Kᵀ) V, where a tilde marks landmarks and ⁺ is
    `iterative_pseudo_inverse`. Landmarks are means over past and future, so that it cannot be causal. Hidden keys, and
    the queries that stand with them where there are as many of both, are in no mean.
    """

    num_landmarks: int
    iterations: int = 6
    supports = frozenset({"padding", "cross"})

    def __post_init__(self):
        count("num_landmarks", self.num_landmarks, least=1)
        count("iterations", self.iterations)

    @hinted
    def __call__(self, q, k, v, **options):
        """Return what `attention` returns with the rebuilt weights."""
        asked = ask(self, q, k, v, **options)
        call, shown = asked.call, visible_keys(asked)
        q, k, v = call.scale * shapes.float64("q", q), repeat_heads(k, call), repeat_heads(v, call)
        k, v = (np.where(shown, x, 0.0) for x in (k, v))
        of_queries = shown if call.n_q == call.n_k else True
        q_marks, some_q = segment_means(q, self.num_landmarks, of_queries)
        k_marks, some_k = segment_means(k, self.num_landmarks, shown)
        to_marks = weights(q, k_marks, some_k)
        between = weights(q_marks, k_marks, some_k) * some_q
        from_marks = weights(q_marks, k, shown) * some_q
        return to_marks @ iterative_pseudo_inverse(between, self.iterations) @ (from_marks @ v)


def weights(q, k, shown):
    scores = np.einsum("...id,...jd->...ij", q, k)
    return softmax(np.where(np.swapaxes(shown, -1, -2), scores, -np.inf))
