"""Relative positions on a grid: one learned number a head for each offset of row and column (Liu et al. 2021)."""

import torch
from einops import rearrange
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.modes import readable
from mha.nn.relative.pairs import check_positions
from mha.nn.strips import of_heads, shallow_copy

__all__ = ["GridBias", "grid_bias"]


def grid_bias(
    table: "Float[Tensor, 'offsets h']",
    q_positions: "Int[Tensor, '*b i']",
    k_positions: "Int[Tensor, '*b j']",
    *,
    window,
) -> "Float[Tensor, '*b h i j']":
    """Return what each head adds to the score of each pair in a window of (rows, columns), counted row by row.

    The table has a row for each offset, query minus key: first that of the last key seen from the first query,
    (1 − rows, 1 − columns).
    """
    checks.tensors(table=table)
    rows, columns = shapes.check_window(window)
    shapes.check_shape("table", table, ((2 * rows - 1) * (2 * columns - 1), table.shape[-1]))
    check_positions(q_positions, k_positions)
    q, k = q_positions.long().unsqueeze(-1), k_positions.long().unsqueeze(-2)
    for name, x in {"q_positions": q, "k_positions": k}.items():
        if x.numel() and x.device.type == "cpu" and readable(x):
            shapes.check_in_window(name, int(x.min()), int(x.max()), rows, columns)
    down = q.div(columns, rounding_mode="floor") - k.div(columns, rounding_mode="floor")
    across = q % columns - k % columns
    return rearrange(table[(down + rows - 1) * (2 * columns - 1) + across + columns - 1], "... i j h -> ... h i j")


class GridBias(nn.Module):
    """A position scheme for `MultiHeadAttention(position=...)`, as in Swin: the rows of x are a window, row by row.

    `weight` is ((2 · rows − 1) · (2 · columns − 1), num_heads) and begins at zero. Windows that are shifted over the
    edge hide by a mask what does not belong together; the bias is the same.
    """

    def __init__(self, num_heads, *, window, device=None, dtype=None):
        super().__init__()
        rows, columns = self.window = shapes.check_window(window)
        self.num_heads = count("num_heads", num_heads, least=1)
        shape = (2 * rows - 1) * (2 * columns - 1), self.num_heads
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weights to zero: at first no offset counts."""
        nn.init.zeros_(self.weight)

    def of_heads(self, heads):
        """Return the scheme of these heads alone, with a table of its own."""
        made = shallow_copy(self)
        made.num_heads, made.weight = len(heads), of_heads(self.weight, heads, dim=1)
        return made

    def bias(
        self, q_positions: "Int[Tensor, '*b i']", k_positions: "Int[Tensor, '*b j']"
    ) -> "Float[Tensor, '*b h i j']":
        """Return what each head adds to the score of each pair: `grid_bias`."""
        return grid_bias(self.weight, q_positions, k_positions, window=self.window)

    def extra_repr(self):
        return f"{self.weight.shape[1]}, window={self.window}"
