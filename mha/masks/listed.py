"""Masks that list blocks of the score matrix: what block-sparse attention is given."""

from dataclasses import dataclass
from typing import Any

from mha.integers import count, own
from mha.masks.arrays import frozen, table_text
from mha.masks.base import Mask
from mha.masks.slots import BySlot
from mha.text import say

__all__ = ["InBlocks", "in_blocks"]


@dataclass(frozen=True, eq=False, repr=False)
class InBlocks(BySlot):
    table: Any  # (b | 1, h | 1, query blocks, key blocks)
    num_rows: int
    num_columns: int
    start: Any = (0,)
    noun = "blocks"

    @staticmethod
    def rule(at, b, h, i, j, table, start, start_step, b_step, h_step, width, num_rows, num_columns):
        row = (i - at(start, b * start_step)) // num_rows
        return at(table, b * b_step + h * h_step + row * width + j // num_columns)

    def params(self):
        samples, heads, blocks, width = self.table.shape
        b_step, h_step = heads * blocks * width * (samples != 1), blocks * width * (heads != 1)
        flat, start_step = self.table.reshape(-1), int(len(self.start) != 1)
        return flat, self.start, start_step, b_step, h_step, width, self.num_rows, self.num_columns

    @property
    def size(self):
        return self.num_rows, self.num_columns

    def extent(self):
        return tuple(blocks * size for blocks, size in zip(self.table.shape[2:], self.size, strict=True))

    def numbers(self, seen, b, h, i, j):
        place = {"row": self.row(b, i) // self.num_rows, "column": j // self.num_columns}
        return say(f"masks.explain.listed_{'visible' if seen else 'hidden'}", **place)

    def sizes(self):
        return tuple(self.table.shape[:2])

    def check(self, n_q, n_k, batch=1, num_heads=1):
        blocks = -(-n_q // self.num_rows), -(-n_k // self.num_columns)
        expected = batch, num_heads, *blocks
        fits = all(got in (1, wanted) for got, wanted in zip(self.table.shape[:2], expected, strict=False))
        if not fits or tuple(self.table.shape[2:]) != blocks:
            raise ValueError(
                f"mask lists blocks of shape {tuple(self.table.shape)}: expected {expected}, or 1 sample and 1 head, "
                f"for {n_q} queries and {n_k} keys in blocks of {self.num_rows} × {self.num_columns}"
            )

    def __repr__(self):
        table = self.table[0, 0] if self.table.shape[:2] == (1, 1) else self.table
        return f"in_blocks({table_text(table)}, {self.size})"


def in_blocks(blocks, size=None):
    """See the pairs in blocks of the score matrix that are listed, by slot: all of a block or nothing of it.

    `blocks` is a boolean array (query blocks, key blocks) or (b | 1, h | 1, query blocks, key blocks) with the `size`
    of a block, (query rows, key columns) or one number for both; or the `Tiles` of a mask, which know their size, or
    what this function made of them. The last block of a side may stand out over the end.
    `in_blocks(mask.tiles(…)) & mask` is the mask again.
    """
    from mha.masks.tiles import Tiles

    if isinstance(blocks, (InBlocks, Tiles)) and size is not None:
        raise ValueError(f"size is {size}: expected None, tiles have a size of their own, {blocks.size}")
    if isinstance(blocks, InBlocks):
        return blocks
    if isinstance(blocks, Mask):
        raise TypeError(f"blocks is {blocks!r}: expected a boolean array or tiles; mask.tiles(n_q, n_k, size=…) lists")
    if isinstance(blocks, Tiles):
        blocks, size = blocks.visible, blocks.size
    if size is None:
        raise TypeError("size is None: expected (query rows, key columns) of a block, or one number for both")
    rows, columns = size if isinstance(size, tuple) and len(size) == 2 else (size, size)
    rows, columns = count("size of a block", rows, least=1), count("size of a block", columns, least=1)
    blocks = own("blocks", blocks, "rows of equal lengths")
    if not str(blocks.dtype).endswith("bool"):
        raise TypeError(f"blocks has dtype {blocks.dtype}: expected booleans, True = attend")
    if blocks.ndim not in (2, 4):
        hint = "; write (h, i, j) as (1, h, i, j) and (b, i, j) as (b, 1, i, j)" if blocks.ndim == 3 else ""
        raise ValueError(f"blocks has shape {tuple(blocks.shape)}: expected two axes, or (b, h) and these two{hint}")
    return InBlocks(frozen(blocks[None, None] if blocks.ndim == 2 else blocks), rows, columns)
