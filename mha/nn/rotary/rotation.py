"""Rotary positions: queries and keys turn with their position, so that q·k depends on the distance alone.

Same meaning as `mha.reference.rotary`; phases are computed in float64 and rounded once.
"""

from dataclasses import dataclass, replace

import torch

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.rotary.frequencies import geometric

__all__ = ["Angles", "Rotary", "RotaryFrequencies", "interleaved_order", "rotate", "rotate_by"]


def rotate(
    x: "Float[Tensor, '*b h n d']",
    positions: "Int[Tensor, '*b n']",
    *,
    base: float = 10000.0,
    layout: str = "half",
    width: int | None = None,
) -> "Float[Tensor, '*b h n d']":
    """Turn the pair c of each row at position p by the angle p · base^(−2c/width) (Su et al. 2021).

    `positions` are shared by all heads: (n,) or one row per sample, (b, n). The pairs are (c, c + width/2) in
    the layout "half" (Llama, Hugging Face) and (2c, 2c + 1) in "interleaved" (the paper, Meta's code). The first
    `width` coordinates turn, by default all; the others pass (GPT-NeoX).   Book: {eq}`rotary`
    """
    return Rotary(base, layout, width).rotate(x, positions)


def rotate_by(
    x: "Float[Tensor, '*b h n d']",
    positions: "Int[Tensor, '*b n']",
    frequencies: "Float[Tensor, ' m']",
    *,
    layout: str = "half",
    width: int | None = None,
    gain: float = 1.0,
) -> "Float[Tensor, '*b h n d']":
    """Turn the pair c of each row by position · frequency c, and stretch what turns by `gain`; else as `rotate`."""
    return RotaryFrequencies(frequencies, layout, width, gain).rotate(x, positions)


@dataclass(frozen=True, eq=False)
class Angles:
    """A rotary scheme at known positions: the angles are worked out once for all the layers that share them."""

    keep: torch.Tensor  # (…, 1, n, d), the same for all heads: cos of the angle for what turns, 1 for the rest
    cross: torch.Tensor  # (…, 1, n, m) for m pairs: sin of the angle
    layout: str

    def rotate(self, x, positions=None):
        """Turn queries or keys (b, h, n, d); where they stand is known."""
        if x.shape[-2:] != self.keep.shape[-2:]:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: expected (…, heads, length, width) with "
                f"{tuple(self.keep.shape[-2:])} at the end"
            )
        keep, cross = (part.to(torch.promote_types(x.dtype, torch.float32)) for part in (self.keep, self.cross))
        dtype, x, pairs = x.dtype, x.to(keep.dtype), _PAIRS[self.layout]
        turned = x * keep
        (a, b), (turned_a, turned_b) = (pairs(one, cross.shape[-1]) for one in (x, turned))
        turned_a.addcmul_(b, cross, value=-1)
        turned_b.addcmul_(a, cross)
        return turned.to(dtype)


# The first and the second coordinates of the m pairs that turn, and a number for each pair as one for each coordinate.
_PAIRS = {
    "half": lambda x, m: (x[..., :m], x[..., m : 2 * m]),
    "interleaved": lambda x, m: (x[..., 0 : 2 * m : 2], x[..., 1 : 2 * m : 2]),
}
_BOTH = {"half": lambda x: torch.cat((x, x), -1), "interleaved": lambda x: torch.stack((x, x), -1).flatten(-2)}


class _Scheme:
    """What the schemes share: frequencies and positions make angles, and angles turn rows."""

    layout: str
    width: int | None
    gain: float = 1.0

    def __post_init__(self):
        if self.layout not in _PAIRS:
            raise ValueError(
                f"layout is {self.layout!r}: expected 'half' (pairs c, c + d/2) or 'interleaved' (2c, 2c + 1)"
            )
        if self.width is not None:
            shapes.check_turned(self.width)

    def rotate(self, x, positions):
        """Turn queries or keys (b, h, n, d) by their positions, (n,) or (b, n)."""
        checks.tensors(x=x)
        shapes.check_rotary(x, positions, self.layout, self.width)
        return self.at(positions, x.shape[-1], x.dtype).rotate(x)

    def at(self, positions, width, dtype=torch.float64):
        """Return the `Angles` of rows of this width at these positions, in float32 or better for rows of `dtype`."""
        device = positions.device
        if device.type == "mps":  # which has no float64
            angles = self.at(positions.cpu(), width, dtype)
            return replace(angles, keep=angles.keep.to(device), cross=angles.cross.to(device))
        frequencies = self.table(width if self.width is None else self.width, device)
        phases = (positions[..., None] * frequencies).unsqueeze(-3)
        cos, sin = phases.cos() * self.gain, phases.sin() * self.gain
        keep = torch.nn.functional.pad(_BOTH[self.layout](cos), (0, width - 2 * cos.shape[-1]), value=1.0)
        dtype = torch.promote_types(dtype, torch.float32)
        return Angles(keep.to(dtype), sin.to(dtype), self.layout)


@dataclass(frozen=True)
class Rotary(_Scheme):
    """A position scheme for `MultiHeadAttention(position=...)`: `rotate` with its options chosen."""

    base: float = 10000.0
    layout: str = "half"
    width: int | None = None

    def __post_init__(self):
        checks.positive("base", self.base)
        super().__post_init__()

    def table(self, width, device):
        """Return the frequencies of the pairs of so many coordinates."""
        return geometric(width, self.base, device)


@dataclass(frozen=True)
class RotaryFrequencies(_Scheme):
    """A position scheme like `Rotary` whose pairs turn by frequencies of their own, such as those of YaRN.

    They are for all coordinates of a head, or with `width` for the first 2 · len(frequencies) of them. `gain`
    stretches what turns: the scores grow by its square.
    """

    frequencies: tuple[float, ...]
    layout: str = "half"
    width: int | None = None
    gain: float = 1.0

    def __post_init__(self):
        given = self.frequencies.tolist() if isinstance(self.frequencies, torch.Tensor) else self.frequencies
        object.__setattr__(self, "frequencies", tuple(checks.number("frequencies", x) for x in given))
        checks.positive("gain", self.gain)
        super().__post_init__()
        if self.width is not None:
            shapes.check_frequencies(self.frequencies, self.width, wording="width is")

    def table(self, width, device):
        """Return the frequencies, which must be one for each pair of so many coordinates."""
        shapes.check_frequencies(self.frequencies, width)
        return torch.tensor(self.frequencies, dtype=torch.float64, device=device)


def interleaved_order(num_heads, d_head, *, width=None, device=None) -> "Int[Tensor, ' m']":
    """Return where each coordinate of layout "interleaved" stands in layout "half", heads side by side.

    `weight[order]` moves the rows of a projection of queries or keys, bias and all; `order.argsort()` moves back.
    The pairs are those of the first `width` coordinates of a head, by default of all.
    """
    width = d_head if width is None else width
    num_heads = count("num_heads", num_heads, least=1)
    shapes.check_turned(width, d_head)
    order = torch.arange(num_heads * d_head, device=device).unflatten(0, (num_heads, d_head))
    pairs = order[:, :width].unflatten(1, (2, width // 2)).transpose(1, 2).flatten(1)
    return torch.cat((pairs, order[:, width:]), 1).flatten()
