"""Rotary positions: queries and keys turn with their position, so that q·k depends on the distance alone.

Same meaning as `mha.reference.rotary`; phases are computed in float64 and rounded once.
"""

from dataclasses import dataclass

import torch

from mha import shapes
from mha.nn import checks

__all__ = ["Angles", "Rotary", "RotaryFrequencies", "rotate"]


def rotate(
    x: "Float[Tensor, '*b h n d']", positions: "Int[Tensor, '*b n']", *, base: float = 10000.0, layout: str = "half"
) -> "Float[Tensor, '*b h n d']":
    """Turn the pair c of each row at position p by the angle p · base^(−2c/d) (Su et al. 2021).

    `positions` are shared by all heads: (n,) or one row per sample, (b, n). The pairs are (c, c + d/2) in
    the layout "half" (Llama, Hugging Face) and (2c, 2c + 1) in "interleaved" (the paper, Meta's code).
    """
    return Rotary(base, layout).rotate(x, positions)


@dataclass(frozen=True, eq=False)
class Angles:
    """A rotary scheme at known positions: the angles are worked out once for all the layers that share them."""

    cos: torch.Tensor  # (…, 1, n, d/2): the same for all heads
    sin: torch.Tensor
    layout: str

    def rotate(self, x, positions=None):
        """Turn queries or keys (b, h, n, d); where they stand is known."""
        if (x.shape[-2], x.shape[-1]) != (self.cos.shape[-2], 2 * self.cos.shape[-1]):
            expected = self.cos.shape[-2], 2 * self.cos.shape[-1]
            raise ValueError(
                f"x has shape {tuple(x.shape)}: expected (…, heads, length, width) with {expected} at the end"
            )
        cos, sin = (part.to(torch.promote_types(x.dtype, torch.float32)) for part in (self.cos, self.sin))
        a, b = _PAIRS[self.layout](x.to(cos.dtype))
        turned = torch.addcmul(a * cos, b, sin, value=-1), torch.addcmul(b * cos, a, sin)
        return _JOINED[self.layout](*turned).to(x.dtype)


def _angles(phases, layout):
    phases = phases.unsqueeze(-3)
    return Angles(phases.cos(), phases.sin(), layout)


def _check(base, layout):
    checks.positive("base", base)
    if layout not in _PAIRS:
        raise ValueError(f"layout is {layout!r}: expected 'half' (pairs c, c + d/2) or 'interleaved' (2c, 2c + 1)")


_PAIRS = {"half": lambda x: x.chunk(2, -1), "interleaved": lambda x: (x[..., 0::2], x[..., 1::2])}
_JOINED = {
    "half": lambda a, b: torch.cat((a, b), -1),
    "interleaved": lambda a, b: torch.stack((a, b), -1).flatten(-2),
}


def _phases(positions, width, base):
    exponents = torch.arange(0, -width, -2, dtype=torch.float64, device=positions.device) / width
    return positions[..., None] * base**exponents


@dataclass(frozen=True)
class Rotary:
    """A position scheme for `MultiHeadAttention(position=...)`: `rotate` with its base and layout chosen."""

    base: float = 10000.0
    layout: str = "half"

    def __post_init__(self):
        _check(self.base, self.layout)

    def rotate(self, x, positions):
        """Turn queries or keys (b, h, n, d) by their positions, (n,) or (b, n)."""
        checks.tensors(x=x)
        shapes.check_rotary(x, positions, self.layout)
        return self.at(positions, x.shape[-1]).rotate(x)

    def at(self, positions, width):
        """Return the `Angles` of rows of this width at these positions."""
        return _angles(_phases(positions, width, self.base), self.layout)


@dataclass(frozen=True)
class RotaryFrequencies:
    """A position scheme like `Rotary` whose pairs turn by frequencies of their own, such as those of YaRN."""

    frequencies: tuple[float, ...]
    layout: str = "half"

    def __post_init__(self):
        object.__setattr__(self, "frequencies", tuple(checks.number("frequencies", x) for x in self.frequencies))
        _check(1.0, self.layout)

    def rotate(self, x, positions):
        """Turn queries or keys (b, h, n, d) by their positions, (n,) or (b, n)."""
        shapes.check_rotary(x, positions, self.layout)
        if x.shape[-1] != 2 * len(self.frequencies):
            raise ValueError(f"x has width {x.shape[-1]}: expected {2 * len(self.frequencies)}, a pair a frequency")
        table = torch.tensor(self.frequencies, dtype=torch.float64, device=x.device)
        return _angles(positions.to(torch.float64)[..., None] * table, self.layout).rotate(x)
