"""Lists of blocks, each against the sentence that defines it."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.masks import causal, in_blocks, window

BLOCKS = np.array([[1, 0, 0], [0, 1, 1]], bool)


def spread(blocks, size, n_q, n_k):
    """Repeat every entry over its block, and cut what stands out."""
    for axis, step in zip((-2, -1), size, strict=True):
        blocks = np.repeat(blocks, step, axis)
    return blocks[..., :n_q, :n_k]


@pytest.mark.parametrize(("n_q", "n_k"), [(8, 9), (7, 9), (5, 7), (8, 8)])
def test_a_listed_block_is_seen_whole(n_q, n_k):
    for start in (None, 5, -3, [0, 7]):  # it goes by slot, wherever a slot stands
        found = in_blocks(BLOCKS, (4, 3)).dense(n_q, n_k, q_start=start)
        assert_equal(found if found.ndim == 2 else found[1, 0], spread(BLOCKS, (4, 3), n_q, n_k), label=str(start))


def test_samples_and_heads_have_lists_of_their_own():
    lists = np.random.default_rng(0).random((2, 3, 4, 2)) < 0.5
    assert_equal(in_blocks(lists, 3).dense(11, 5), spread(lists, (3, 3), 11, 5))


@pytest.mark.parametrize("mask", [causal, window(3, 1), causal & ~window(5, 0), masks.lengths([3, 11])], ids=repr)
@pytest.mark.parametrize("size", [(4, 3), (5, 5), (1, 7)])
def test_the_tiles_of_a_mask_and_the_mask_are_the_mask(mask, size):
    listed = in_blocks(mask.tiles(11, 13, size=size))
    assert_equal((listed & mask).dense(11, 13), mask.dense(11, 13))


@pytest.mark.parametrize("size", [(4, 3), (8, 6), (2, 1), (3, 5)])
def test_blocks_of_one_size_are_mapped_to_tiles_of_another(size):
    """Without a look at the pairs: a tile is full where each block that it touches is listed and it is whole."""
    see = spread(BLOCKS, (4, 3), 8, 9)
    tiles = in_blocks(BLOCKS, (4, 3)).tiles(8, 9, size=size)
    for row, column in np.ndindex(*tiles.shape[2:]):
        part = see[row * size[0] :, column * size[1] :][: size[0], : size[1]]
        assert tiles.visible[0, 0, row, column] == part.any()
        assert tiles.full[0, 0, row, column] == (part.all() and part.shape == size)


def test_explain():
    assert in_blocks(BLOCKS, 4).explain(5, 6) == (
        "i=5 may see j=6: in_blocks([[True, False, False], [False, True, True]], (4, 4)) "
        "(block row 1, column 1 is listed)"
    )
    assert "(block row 0, column 1 is not listed)" in in_blocks(BLOCKS, 4).explain(3, 6)
    with pytest.raises(ValueError, match="i is in slot 8: expected 0 to 7, the slots of the blocks"):
        in_blocks(BLOCKS, 4).explain(8, 6)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: in_blocks(BLOCKS), TypeError, r"size is None: expected \(query rows, key columns\) of a block"),
        (lambda: in_blocks(BLOCKS, 0), ValueError, "size of a block is 0: expected at least 1"),
        (lambda: in_blocks(BLOCKS.astype(int), 4), TypeError, "blocks has dtype int64: expected booleans"),
        (lambda: in_blocks(BLOCKS[None], 4), ValueError, r"blocks has shape \(1, 2, 3\): .* write \(h, i, j\) as"),
        (lambda: in_blocks(causal.tiles(8, 9, size=(4, 3)), 4), ValueError, r"size of their own, \(4, 3\)"),
        (lambda: in_blocks(in_blocks(BLOCKS, (4, 3)), 4), ValueError, r"size of their own, \(4, 3\)"),
        (lambda: in_blocks(causal), TypeError, r"blocks is causal: expected a boolean array or tiles; mask\.tiles"),
        (lambda: in_blocks(BLOCKS, 4).dense(9, 9), ValueError, r"\(1, 1, 2, 3\): expected \(1, 1, 3, 3\)"),
        (lambda: in_blocks(BLOCKS, 4).dense(8, 5), ValueError, "for 8 queries and 5 keys in blocks of 4 × 4"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
