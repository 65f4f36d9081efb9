"""Nyström attention: a softmax matrix rebuilt from the rows and columns of a few landmarks (Xiong et al. 2021).

Same meaning as `mha.reference`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from mha import shapes
from mha.approximations import ask
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import alike, softmax, wide
from mha.nn.linear.visible_keys import hidden_as_zeros, visible_keys
from mha.nn.modes import own_precision
from mha.options import hinted

__all__ = ["Nystrom", "convolved_values", "iterative_pseudo_inverse", "segment_means"]


def segment_means(x: "Float[Tensor, '*b n d']", num_segments: int, shown=None):
    """Cut the rows that are shown into segments of equal length, up to one row, and return the mean of each.

    `shown` broadcasts to (…, n, 1). Fewer rows than segments make as many means, and zeros behind them; which means
    there are, (…, segments, 1), is returned too.
    """
    shown = torch.ones(x.shape[-2], 1, dtype=torch.bool, device=x.device) if shown is None else shown
    shown = shown.expand(*shown.shape[:-2], x.shape[-2], 1)
    rank, size = shown.cumsum(-2) - 1, shown.sum(-2, keepdim=True)
    segment = rank * size.clamp(max=num_segments) // size.clamp(min=1)
    inside = shown & (segment == torch.arange(num_segments, device=x.device))
    counts = inside.sum(-2)[..., None]
    sums = inside.to(x.dtype).mT @ x.masked_fill(~shown, 0.0)
    return sums / counts.clamp(min=1), counts > 0


def iterative_pseudo_inverse(a: "Float[Tensor, '*b i j']", iterations: int = 6) -> "Float[Tensor, '*b j i']":
    """Approach the Moore–Penrose inverse of matrices without negative entries whose rows sum to 1, or to 0.

    From Z = Aᵀ / ‖A‖₁ on, Z ← Z (13 − A Z (15 − A Z (7 − A Z))) / 4 (Razavi et al. 2014). The norm, the largest sum
    of a column, is each matrix's own.
    """
    one = torch.eye(a.shape[-2], dtype=a.dtype, device=a.device)
    largest = a.sum(-2, keepdim=True).amax(-1, keepdim=True) if a.numel() else a.new_ones(())
    z = a.mT / largest.masked_fill(largest == 0, 1.0)
    for _ in range(iterations):
        az = a @ z
        z = 0.25 * z @ (13 * one - az @ (15 * one - az @ (7 * one - az)))
    return z


def convolved_values(v: "Float[Tensor, '*b h n e']", kernels: "Float[Tensor, 'h size']") -> "Float[Tensor, '*b h n e']":
    """Return sums of each value and its neighbours, with the weights of its head: what the authors add to the output.

    The size is odd, and outside of the sequence there are zeros; padding must hold zeros too.
    """
    checks.tensors(v=v, kernels=kernels)
    shapes.check_kernels(v, kernels)
    if not v.numel():
        return v
    num_heads, size = kernels.shape
    flat = v.reshape(-1, *v.shape[-3:])
    return F.conv2d(flat, kernels[:, None, :, None], padding=(size // 2, 0), groups=num_heads).reshape(v.shape)


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
        """Return what `mha.nn.attention` returns with the rebuilt weights."""
        checks.tensors(q=q, k=k, v=v)
        asked = ask(self, q, k, v, **options)
        call, dtype = asked.call, v.dtype
        with own_precision(q):
            shown = visible_keys(asked, q.device)
            q, k, v = map(wide, alike(q, k, v))
            q, (k, v) = call.scale * q, hidden_as_zeros(shown, k, v)
            k, v = (x.repeat_interleave(call.num_heads // call.num_kv_heads, -3) for x in (k, v))
            q_marks, some_q = segment_means(q, self.num_landmarks, shown if call.n_q == call.n_k else None)
            k_marks, some_k = segment_means(k, self.num_landmarks, shown)
            inverse = iterative_pseudo_inverse(weights(q_marks, k_marks, some_k) * some_q, self.iterations)
            from_marks = weights(q_marks, k, shown) * some_q
            return (weights(q, k_marks, some_k) @ (inverse @ (from_marks @ v))).to(dtype)


def weights(q, k, shown):
    """Return the softmax of q·k over the keys that are shown."""
    scores = q @ k.mT
    return softmax(scores if shown is None else scores.masked_fill(~shown.mT, -torch.inf))
