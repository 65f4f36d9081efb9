"""Absolute positions: vectors that are added to the embeddings of the tokens, so that attention can tell an order.

Same meaning as `mha.reference.position`; phases are computed in float64 and rounded once.
"""

import torch
from torch import nn

from mha import shapes
from mha.integers import count, integer
from mha.nn import checks
from mha.nn.modes import readable

__all__ = [
    "LearnedGrid",
    "LearnedPositions",
    "SinusoidalPositions",
    "grid_positions",
    "interpolate_grid",
    "learned_positions",
    "shift_matrix",
    "sinusoidal",
    "sinusoidal_2d",
]


def sinusoidal(
    positions: "Int[Tensor, '*b']", d_model, *, base=10000.0, layout="interleaved", dtype=None
) -> "Float[Tensor, '*b m']":
    """Return the sine and the cosine of p · base^(−2c/d_model) for each position p and pair c (Vaswani et al. 2017).

    Pair c is in the columns (2c, 2c + 1) of the layout "interleaved" and in (c, c + d_model/2) of "half". Without
    `dtype` the result has torch's default.   Book: {eq}`sinusoid`.
    """
    shapes.check_sinusoid(d_model, base, layout)
    checks.integers("positions", positions)
    device = positions.device
    if device.type == "mps":  # which has no float64
        return sinusoidal(positions.cpu(), d_model, base=base, layout=layout, dtype=dtype).to(device)
    angles = positions[..., None] * _frequencies(d_model, base, device)
    waves = torch.stack((angles.sin(), angles.cos()), -2 if layout == "half" else -1).flatten(-2)
    return waves.to(dtype or torch.get_default_dtype())


def shift_matrix(
    distance, d_model, *, base=10000.0, layout="interleaved", device=None, dtype=None
) -> "Float[Tensor, 'm m']":
    """Return the matrix that moves the encoding of any position by a distance: it turns every pair by its own angle.

    Book: {eq}`sinusoid-shift`.
    """
    shapes.check_sinusoid(d_model, base, layout)
    angles = integer("distance", distance) * _frequencies(d_model, base, device)
    cos, sin = angles.cos().diag(), angles.sin().diag()
    blocks = torch.stack((torch.stack((cos, -sin)), torch.stack((sin, cos))))  # from sine or cosine, to either
    order = (0, 2, 1, 3) if layout == "half" else (2, 0, 3, 1)
    return blocks.permute(order).reshape(d_model, d_model).to(dtype or torch.get_default_dtype())


def sinusoidal_2d(
    positions: "Int[Tensor, '*b 2']", d_model, *, base=10000.0, layout="interleaved", dtype=None
) -> "Float[Tensor, '*b m']":
    """Return the encoding of the row beside that of the column, each half as wide (He et al. 2022).

    `positions` are rows and columns, as from `grid_positions`.   Book: {eq}`sinusoid-2d`.
    """
    shapes.check_sinusoid(d_model, base, layout, axes=2)
    checks.integers("positions", positions)
    shapes.check_places("positions", positions)
    options = {"base": base, "layout": layout, "dtype": dtype}
    return torch.cat([sinusoidal(axis, d_model // 2, **options) for axis in positions.unbind(-1)], -1)


def grid_positions(height, width, *, device=None) -> "Int[Tensor, 'n 2']":
    """Return the row and the column of each patch of a picture, row by row."""
    axes = (torch.arange(count(name, n), device=device) for name, n in (("height", height), ("width", width)))
    return torch.cartesian_prod(*axes).reshape(-1, 2)


def learned_positions(table: "Float[Tensor, 'rows m']", positions: "Int[Tensor, '*b']") -> "Float[Tensor, '*b m']":
    """Return the row of a table for each position, of which the table must have one.   Book: {eq}`learned-position`."""
    checks.integers("positions", positions)
    checks.tensors(table=table)
    shapes.check_rank("table", table, ("positions", "width"))
    positions = positions.long()
    if positions.numel() and readable(positions):
        shapes.check_in_table(int(positions.min()), int(positions.max()), len(table))
    return nn.functional.embedding(positions, table)  # table[positions] would take −1 for the last row


def interpolate_grid(grid: "Float[Tensor, 'h w m']", height, width) -> "Float[Tensor, 'h2 w2 m']":
    """Return a learned grid at another size: cubic along both axes, as in the ViTs of PyTorch.

    So Vision Transformers read larger pictures (Dosovitskiy et al., 2021, whose own code is linear). Computed in at
    least float32.   Book: {eq}`grid-interpolation`.
    """
    checks.tensors(grid=grid)
    shapes.check_grid(grid)
    size = count("height", height, least=1), count("width", width, least=1)
    planes = grid.to(torch.promote_types(grid.dtype, torch.float32)).permute(2, 0, 1)[None]
    return nn.functional.interpolate(planes, size, mode="bicubic")[0].permute(1, 2, 0).to(grid.dtype)


class SinusoidalPositions(nn.Module):
    """Add to each token the sines and cosines of its position: no parameters, and no last position.

    Book: {eq}`sinusoid`.
    """

    def __init__(self, d_model, *, base=10000.0, layout="interleaved"):
        super().__init__()
        shapes.check_sinusoid(d_model, base, layout)
        self.d_model, self.base, self.layout = d_model, base, layout

    def forward(
        self, x: "Float[Tensor, '*b n m']", positions: "Int[Tensor, '*b n'] | None" = None
    ) -> "Float[Tensor, '*b n m']":
        """Return x with its positions: 0, 1, 2, … unless given, (n,) or one row per sample."""
        positions = _where(x, positions, self.d_model)
        return x + sinusoidal(positions, self.d_model, base=self.base, layout=self.layout, dtype=x.dtype)

    def extra_repr(self):
        return f"{self.d_model}, base={self.base:g}, layout={self.layout!r}"


class LearnedPositions(nn.Module):
    """Add to each token the row of its position in a table that is trained with the model (Gehring et al. 2017).

    `weight` is (num_positions, d_model). There is no row past the end: such a position is refused.
    Book: {eq}`learned-position`.
    """

    def __init__(self, num_positions, d_model, *, device=None, dtype=None):
        super().__init__()
        shape = count("num_positions", num_positions, least=1), count("d_model", d_model, least=1)
        self.weight = nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the table as BERT and GPT-2 do, with standard deviation 0.02."""
        nn.init.normal_(self.weight, std=0.02)

    def forward(
        self, x: "Float[Tensor, '*b n m']", positions: "Int[Tensor, '*b n'] | None" = None
    ) -> "Float[Tensor, '*b n m']":
        """Return x with its positions: 0, 1, 2, … unless given, (n,) or one row per sample."""
        return x + learned_positions(self.weight, _where(x, positions, self.weight.shape[-1]))

    def extra_repr(self):
        return "{}, {}".format(*self.weight.shape)


class LearnedGrid(nn.Module):
    """Add to each patch of a picture the vector of its place in a grid that is trained with the model.

    `weight` is (height, width, d_model); pictures of another size read the grid interpolated. A class token has no
    place in the grid: give it a parameter of its own.   Book: {eq}`grid-interpolation`.
    """

    def __init__(self, height, width, d_model, *, device=None, dtype=None):
        super().__init__()
        sizes = {"height": height, "width": width, "d_model": d_model}
        shape = [count(name, size, least=1) for name, size in sizes.items()]
        self.weight = nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the grid as ViT does, with standard deviation 0.02."""
        nn.init.normal_(self.weight, std=0.02)

    def forward(
        self, x: "Float[Tensor, '*b n m']", height: int | None = None, width: int | None = None
    ) -> "Float[Tensor, '*b n m']":
        """Return the patches x, row by row, with their places in a picture of height × width patches."""
        own_height, own_width, d_model = self.weight.shape
        height, width = own_height if height is None else height, own_width if width is None else width
        shapes.check_input("x", x, d_model)
        if x.shape[-2] != height * width:
            raise ValueError(f"x has {x.shape[-2]} patches: expected {height} × {width} = {height * width}")
        same = (height, width) == (own_height, own_width)
        grid = self.weight if same else interpolate_grid(self.weight, height, width)
        return x + grid.flatten(0, 1)

    def extra_repr(self):
        return "{}, {}, {}".format(*self.weight.shape)


def _frequencies(d_model, base, device):
    return base ** (-torch.arange(0, d_model, 2, dtype=torch.float64, device=device) / d_model)


def _where(x, positions, d_model):
    shapes.check_input("x", x, d_model)
    if positions is None:
        return torch.arange(x.shape[-2], device=x.device)
    checks.positions("positions", positions, x.shape[:-1])
    return positions
