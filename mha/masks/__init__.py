"""Masks as values: small immutable rules that say which query position may attend to which key position.

Rules see positions, not slots: query slot 0 stands at `q_start`, key slot j at j. True means attend. Masks combine with
`&`, `|` and `~`, and a composition shows the pairs that the operator gives, one by one.

=====================================  =================================================================
mask                                   query i sees key j if
=====================================  =================================================================
`causal`                               j ≤ i
`window(left, right)`                  i − left ≤ j ≤ i + right
`window_of(total)`                     i − total < j ≤ i
`strided(step)`                        i − j is a multiple of step
`dilated(left, right, step)`           j = i + k · step, −left ≤ k ≤ right
`log_strided`                          j = i or j = i − 2ᵏ
`prefix(n)`                            j < n
`global_tokens(positions)`             i or j is one of the positions
`fixed(block, summary)`                both are in one block, or j is among the last of its block
`random_blocks(seed, n, …)`            the block of i drew the block of j
`window2d(grid, radius)`               both are near each other on the grid
`shifted_window2d(grid, …)`            both are in one window of the grid
`lengths(n)`                           j < n[b]
`key_padding(keep)`                    keep[b, j]
`segments(q_ids, k_ids)`               their ids are equal
`dense(array)`                         the array says so, by slot
`in_blocks(blocks, size)`              the block of slots i and j is listed
`big_bird(n, block, plan)`             their blocks are near, or one is at an end, or i's drew j's
`per_head(masks)`                      the mask of head h says so
`shifted(mask, first)`                 the mask says so of i − first and j − first
=====================================  =================================================================
"""

from mha.masks.base import And, Mask, Not, Or, Pair, at
from mha.masks.bigbird import big_bird, big_bird_plan
from mha.masks.blocks import Fixed, RandomBlocks, fixed, random_blocks
from mha.masks.convert import from_mask_mod, from_torch_mha
from mha.masks.distances import (
    Causal,
    Dilated,
    LogStrided,
    Strided,
    Window,
    causal,
    dilated,
    log_strided,
    strided,
    window,
    window_of,
)
from mha.masks.evaluate import query_start, visible
from mha.masks.grids import ShiftedWindow2d, Window2d, shifted_window2d, window2d
from mha.masks.heads import PerHead, per_head
from mha.masks.listed import InBlocks, in_blocks
from mha.masks.packing import Segments, segment_ids, segment_positions, segments
from mha.masks.padding import KeyPadding, Lengths, key_padding, lengths, padding_positions
from mha.masks.places import GlobalTokens, Prefix, global_tokens, prefix
from mha.masks.shifting import Shifted, shifted
from mha.masks.slots import Dense, as_mask, dense

__all__ = [
    "Mask",
    "as_mask",
    "big_bird",
    "big_bird_plan",
    "causal",
    "dense",
    "dilated",
    "fixed",
    "from_mask_mod",
    "from_torch_mha",
    "global_tokens",
    "in_blocks",
    "key_padding",
    "lengths",
    "log_strided",
    "padding_positions",
    "per_head",
    "prefix",
    "query_start",
    "random_blocks",
    "segment_ids",
    "segment_positions",
    "segments",
    "shifted",
    "shifted_window2d",
    "strided",
    "visible",
    "window",
    "window2d",
    "window_of",
]
