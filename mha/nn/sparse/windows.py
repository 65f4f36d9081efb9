"""Attention within the windows of a grid, window by window: the way of Swin (Liu et al., 2021).

Same meaning as `mha.reference.sparse.windows`. Time and memory grow with the number of patches.
"""

import math

import torch
from torch import nn

from mha import masks, shapes
from mha.nn import checks, layer_checks
from mha.nn.dot_product import attention
from mha.nn.heads import join_heads, split_heads

__all__ = ["WindowAttention", "window_attention", "window_slots"]


def window_slots(grid, window, shift=0, *, device=None) -> "Int[Tensor, 'windows patches']":
    """Return the slot of each patch, window by window, when the grid is moved back by `shift` and cut.

    What leaves at one edge comes in at the other. −1 stands where the grid is filled up to whole windows.
    """
    cut = masks.shifted_window2d(grid, window, shift)
    slots = torch.arange(cut.rows * cut.columns, device=device).reshape(cut.rows, cut.columns)
    slots = nn.functional.pad(slots, (0, -cut.columns % cut.width, 0, -cut.rows % cut.height), value=-1)
    moved = slots.roll((-cut.down, -cut.across), (0, 1))
    tiles = moved.unflatten(1, (-1, cut.width)).unflatten(0, (-1, cut.height))
    return tiles.transpose(1, 2).flatten(2).flatten(0, 1)


def window_attention(
    q: "Float[Tensor, '*b h n d']",
    k: "Float[Tensor, '*b h n d']",
    v: "Float[Tensor, '*b h n e']",
    *,
    grid,
    window,
    shift=0,
    bias=None,
    scale=None,
) -> "Float[Tensor, '*b h n e']":
    """Attend within each window of a grid of (rows, columns), slot i the patch of row i // columns.   Book:
    {eq}`window-attention`

    The numbers of `attention` with `masks.shifted_window2d(grid, window, shift)`; patches that only the shift brought
    together do not see each other. `bias` is (h, p, p), the same in every window of p patches.
    """
    checks.tensors(q=q, k=k, v=v)
    cut = masks.shifted_window2d(grid, window, shift)
    shapes.check_patches((cut.rows, cut.columns), q=q, k=k, v=v)
    slots = window_slots(grid, window, shift, device=q.device)
    see = cut(0, 0, slots[:, :, None], slots[:, None, :])
    places = slots.clamp(min=0)
    q, k, v = (x[..., places, :].transpose(-3, -4) for x in (q, k, v))  # (…, windows, h, p, d)
    batch = shapes.broadcast(*(x.shape[:-4] for x in (q, k, v)))
    whole = not (cut.down or cut.across or cut.rows % cut.height or cut.columns % cut.width)
    mask = None if whole else see[:, None].repeat(math.prod(batch), 1, 1, 1)
    found = attention(q, k, v, mask=mask, bias=bias, scale=scale).transpose(-3, -4).flatten(-3, -2)
    return found[..., slots.flatten().argsort()[-cut.rows * cut.columns :], :]  # what fills the grid up comes first


class WindowAttention(nn.Module):
    """Self-attention within the windows of a grid, as in Swin: x is (batch, rows · columns, d_model), row by row.

    Layers of a stack take `shift` 0 and half a window by turns. `position` is a position scheme with
    `bias(q_positions, k_positions)`, which is asked for the patches of one window, counted row by row.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        window,
        shift=0,
        position=None,
        bias: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        layer_checks.check_sizes(d_model, num_heads, num_heads, None, d_model, d_model)
        layer_checks.check_flags(bias=bias, sinks=False, gate=False)
        if position is not None and not callable(getattr(position, "bias", None)):
            raise TypeError(f"position is {position!r}: expected an object with bias(q_positions, k_positions)")
        masks.shifted_window2d((1, 1), window, shift)  # raises unless grids can be cut so
        self.num_heads, self.window, self.shift, self.position = num_heads, window, shift, position
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model, **options) for _ in "qkvo")

    def forward(self, x, grid):
        """Return (batch, rows · columns, d_model) for a grid of (rows, columns)."""
        layer_checks.check_input("x", x, self.q_proj)
        q, k, v = (split_heads(linear(x), self.num_heads) for linear in (self.q_proj, self.k_proj, self.v_proj))
        options = {"grid": grid, "window": self.window, "shift": self.shift, "bias": self._bias(x.device)}
        return self.out_proj(join_heads(window_attention(q, k, v, **options)))

    def _bias(self, device):
        if self.position is None:
            return None
        cut = masks.shifted_window2d((1, 1), self.window, self.shift)
        positions = torch.arange(cut.height * cut.width, device=device)
        return self.position.bias(positions, positions)

    def extra_repr(self):
        return f"num_heads={self.num_heads}, window={self.window}, shift={self.shift}"
