"""FlexAttention with the block mask of our tiles, and the dense mask of a foreign mask_mod."""

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention

import rounding
from compare import assert_equal
from masks.every import every, in_turn
from mha import reference
from mha.masks import causal, window
from mha.masks.convert import from_mask_mod

N_Q, N_K, BATCH, HEADS, WIDTH = 29, 37, 2, 3, 5
MASKS = every(N_Q, N_K, BATCH, HEADS)
SIZE = 16, 8


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("mask", "q_start"), in_turn(MASKS, [None, [2, 5]]))
def test_the_same_attention(mask, q_start):
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((BATCH, HEADS, n, WIDTH)) for n in (N_Q, N_K, N_K))
    block_mask = mask.to_flex(N_Q, N_K, size=SIZE, q_start=q_start)
    out = flex_attention(*map(torch.from_numpy, (q, k, v)), block_mask=block_mask)
    expected = reference.attention(q, k, v, mask=mask, q_start=q_start)
    assert_equal(out, expected, atol=rounding.of_output(q, k, v))


def blocks(block_mask):
    """What a BlockMask says of its blocks: visible in part, and full, as arrays (b, h, query blocks, key blocks)."""
    pictures = []
    for counts, indices in (
        (block_mask.kv_num_blocks, block_mask.kv_indices),
        (block_mask.full_kv_num_blocks, block_mask.full_kv_indices),
    ):
        picture = np.zeros(indices.shape, bool)
        for place in np.ndindex(*counts.shape):
            picture[place][indices[place][: counts[place]]] = True
        pictures.append(picture)
    return pictures


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_the_blocks_hold_what_the_rule_shows(mask):
    block_mask = mask.to_flex(N_Q, N_K, size=SIZE)
    see = np.broadcast_to(mask.dense(N_Q, N_K), (BATCH, HEADS, N_Q, N_K))
    assert_equal(create_mask(block_mask.mask_mod, BATCH, HEADS, N_Q, N_K, device="cpu"), see)
    partial, full = blocks(block_mask)
    assert not (partial & full).any()
    assert block_mask.seq_lengths == (N_Q, N_K)
    for b, h, row, column in np.ndindex(BATCH, HEADS, *partial.shape[2:]):
        tile = see[b, h, row * SIZE[0] : (row + 1) * SIZE[0], column * SIZE[1] : (column + 1) * SIZE[1]]
        place = b % partial.shape[0], h % partial.shape[1], row, column
        assert full[place] <= (tile.shape == SIZE and tile.all())
        assert (partial | full)[place] >= tile.any()


def test_the_blocks_are_those_of_torch():
    for mask in (causal, window(9, 0)):
        ours = mask.to_flex(64, 64, size=(16, 16))
        theirs = create_block_mask(ours.mask_mod, None, None, 64, 64, device="cpu", BLOCK_SIZE=16)
        for one, two in zip(blocks(ours), blocks(theirs), strict=True):
            assert_equal(one, two)
        assert ours.q_num_blocks.tolist() == theirs.q_num_blocks.tolist()


def test_a_foreign_mask_mod_is_evaluated():
    mask = from_mask_mod(lambda b, h, q, k: (k <= q) & (k % 3 != b) | (h == 1), 5, 7, batch=2, num_heads=2)
    for b, h, i, j in np.ndindex(2, 2, 5, 7):
        assert mask.dense(5, 7)[b, h, i, j] == ((j <= i and j % 3 != b) or h == 1)
    back = from_mask_mod(window(3, 1).to_flex(11, 11).mask_mod, 11, 11)
    assert_equal(back.dense(11, 11), window(3, 1).dense(11, 11))
    with pytest.raises(ValueError, match="batch is -1"):
        from_mask_mod(lambda b, h, q, k: k <= q, 5, 7, batch=-1)


def test_a_long_window_makes_no_square():
    block_mask = window(255, 0).to_flex(2**16, 2**16)
    assert block_mask.kv_num_blocks.sum() == 1022
    assert block_mask.full_kv_num_blocks.sum() == 511
