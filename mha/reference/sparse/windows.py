"""Attention within the windows of a grid, window by window: the way of Swin (Liu et al., 2021)."""

import numpy as np

from mha import masks, shapes
from mha.reference.dot_product import attention


def window_slots(grid, window, shift=0) -> "Int[Array, 'windows patches']":
    """Return the slot of each patch, window by window, when the grid is moved back by `shift` and cut.

    What leaves at one edge comes in at the other. −1 stands where the grid is filled up to whole windows.
    """
    cut = masks.shifted_window2d(grid, window, shift)
    (height, width), sides = (cut.height, cut.width), (cut.rows, cut.columns)
    slots = np.pad(
        np.arange(cut.rows * cut.columns).reshape(sides),
        [(0, -side % size) for side, size in zip(sides, (height, width), strict=True)],
        constant_values=-1,
    )
    moved = np.roll(slots, (-cut.down, -cut.across), axis=(0, 1))
    tiles = moved.reshape(moved.shape[0] // height, height, moved.shape[1] // width, width)
    return tiles.swapaxes(1, 2).reshape(-1, height * width)


def window_attention(
    q: "Float[Array, '*b h n d']",
    k: "Float[Array, '*b h n d']",
    v: "Float[Array, '*b h n e']",
    *,
    grid,
    window,
    shift=0,
    bias=None,
    scale=None,
) -> "Float[Array, '*b h n e']":
    """Attend within each window of a grid of (rows, columns), slot i the patch of row i // columns.   Book:
    {eq}`window-attention`.

    The numbers of `attention` with `masks.shifted_window2d(grid, window, shift)`; patches that only the shift brought
    together do not see each other. `bias` is (h, p, p), the same in every window of p patches.
    """
    cut = masks.shifted_window2d(grid, window, shift)
    shapes.check_patches((cut.rows, cut.columns), q=q, k=k, v=v)
    slots = window_slots(grid, window, shift)
    see = cut(0, 0, slots[:, :, None], slots[:, None, :])
    q, k, v = (np.swapaxes(x[..., slots, :], -3, -4) for x in (q, k, v))  # (…, windows, h, p, d)
    batch = np.broadcast_shapes(*(x.shape[:-4] for x in (q, k, v)))
    mask = np.tile(see[:, None], (int(np.prod(batch)), 1, 1, 1))
    found = np.swapaxes(attention(q, k, v, mask=mask, bias=bias, scale=scale), -3, -4)
    out = np.empty((*found.shape[:-3], cut.rows * cut.columns, found.shape[-1]))
    out[..., slots[slots >= 0], :] = found[..., slots >= 0, :]
    return out
