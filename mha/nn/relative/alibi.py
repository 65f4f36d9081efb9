"""Relative positions as a slope: a score falls with the distance, in each head at its own rate (Press et al. 2022)."""

from dataclasses import dataclass, field, replace

import torch

from mha.integers import count
from mha.nn import checks
from mha.nn.relative.pairs import distances

__all__ = ["Alibi", "alibi_bias", "alibi_slopes"]


def alibi_slopes(num_heads, *, device=None, dtype=None) -> "Float[Tensor, ' h']":
    """Return 2^(−8/h), 2^(−16/h), … 2^(−8) for a power of two of heads.

    Any other number has the slopes of the power below it, then every second one of the doubled power. That is the
    authors' code and what checkpoints use; the sentence of the paper, one geometric series for any h, is not.
    """
    num_heads = count("num_heads", num_heads, least=1)
    power = 2 ** (num_heads.bit_length() - 1)
    exponents = [8 * n / power for n in range(1, power + 1)]
    exponents += [4 * n / power for n in range(1, 2 * (num_heads - power), 2)]
    return torch.tensor([2.0**-x for x in exponents], device=device, dtype=dtype)


def alibi_bias(
    slopes: "Float[Tensor, ' h']", q_positions: "Int[Tensor, '*b i']", k_positions: "Int[Tensor, '*b j']"
) -> "Float[Tensor, '*b h i j']":
    """Return −slope · abs(j − i) for each head.

    On the keys that a causal mask shows it is the paper's slope · (j − i); keys ahead are as far as those behind.
    """
    checks.tensors(slopes=slopes)
    return -slopes[:, None, None] * distances(q_positions, k_positions).abs().unsqueeze(-3)


@dataclass(frozen=True)
class Alibi:
    """A position scheme for `MultiHeadAttention(position=...)`: attention with linear biases, nothing is learned.

    The slopes are worked out in float64 where a device has it, and the layer takes what they add in the precision
    of its scores: a model in bfloat16 keeps its distances apart.
    """

    num_heads: int
    heads: tuple[int, ...] | None = field(default=None, kw_only=True)  # those of them that are left; None for all

    def __post_init__(self):
        count("num_heads", self.num_heads, least=1)

    def of_heads(self, heads):
        """Return the scheme of these heads alone: each keeps its slope."""
        return replace(self, heads=tuple(heads if self.heads is None else (self.heads[head] for head in heads)))

    def bias(
        self, q_positions: "Int[Tensor, '*b i']", k_positions: "Int[Tensor, '*b j']"
    ) -> "Float[Tensor, '*b h i j']":
        """Return −slope · abs(j − i) for each head: `alibi_bias`."""
        checks.integers("q_positions", q_positions)
        device = q_positions.device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # which MPS does not have
        slopes = alibi_slopes(self.num_heads, device=device, dtype=dtype)
        slopes = slopes if self.heads is None else torch.stack([slopes[head] for head in self.heads])
        return alibi_bias(slopes, q_positions, k_positions)
