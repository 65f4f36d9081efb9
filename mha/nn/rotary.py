"""Rotary positions: queries and keys turn with their position, so that q·k depends on the distance alone.

Same meaning as `mha.reference.rotary`; phases are computed in float64 and rounded once.
"""

from dataclasses import dataclass

import torch
from einops import rearrange, repeat

from mha import shapes
from mha.nn import checks

__all__ = ["Rotary", "rotate"]


def rotate(
    x: "Float[Tensor, '*b h n d']", positions: "Int[Tensor, '*b n']", *, base: float = 10000.0, layout: str = "half"
) -> "Float[Tensor, '*b h n d']":
    """Turn the pair c of each row at position p by the angle p · base^(−2c/d) (Su et al. 2021).

    `positions` are shared by all heads: (n,) or one row per sample, (b, n). The pairs are (c, c + d/2) in
    the layout "half" (Llama, Hugging Face) and (2c, 2c + 1) in "interleaved" (the paper, Meta's code).
    """
    _check(base, layout)
    checks.tensors(x=x)
    shapes.check_rotary(x, positions, layout)
    phases = _phases(positions, x.shape[-1], base)
    x_wide = x.to(torch.promote_types(x.dtype, torch.float32))
    cos, sin = (repeat(f(phases).to(x_wide.dtype), _DOUBLED[layout], two=2) for f in (torch.cos, torch.sin))
    return (x_wide * cos + _quarter_turn(x_wide, layout) * sin).to(x.dtype)


def _check(base, layout):
    checks.positive("base", base)
    if layout not in _PAIRS:
        raise ValueError(f"layout is {layout!r}: expected 'half' (pairs c, c + d/2) or 'interleaved' (2c, 2c + 1)")


_DOUBLED = {"half": "... n c -> ... 1 n (two c)", "interleaved": "... n c -> ... 1 n (c two)"}
_PAIRS = {"half": "... (two c) -> two ... c", "interleaved": "... (c two) -> two ... c"}
_JOINED = {"half": "two ... c -> ... (two c)", "interleaved": "two ... c -> ... (c two)"}


def _phases(positions, width, base):
    pair = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    return positions.to(torch.float64)[..., None] * base ** (-pair / width)


def _quarter_turn(x, layout):
    first, second = rearrange(x, _PAIRS[layout], two=2)
    return rearrange(torch.stack((-second, first)), _JOINED[layout])


@dataclass(frozen=True)
class Rotary:
    """A position scheme for `MultiHeadAttention(position=...)`: `rotate` with its base and layout chosen."""

    base: float = 10000.0
    layout: str = "half"

    def __post_init__(self):
        _check(self.base, self.layout)

    def rotate(self, x, positions):
        """Turn queries or keys (b, h, n, d) by their positions, (n,) or (b, n)."""
        return rotate(x, positions, base=self.base, layout=self.layout)
