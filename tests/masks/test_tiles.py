"""Tiles, pairs and empty rows against the dense array, for masks composed at random."""

import tracemalloc
from time import perf_counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import assert_equal
from masks.cases import BATCH, HEADS, cases
from masks.every import every, in_turn
from mha import masks
from mha.masks import causal, dense, lengths, window

N_Q, N_K = 37, 53
MASKS = every(N_Q, N_K, BATCH, HEADS)
fuzz = settings(deadline=None, max_examples=50)


sizes = st.tuples(st.sampled_from([1, 3, 8, 64]), st.sampled_from([1, 5, 8, 64]))


def by_loops(see, size, groups):
    """Whether each tile shows some pair, and whether it is whole and shows all."""
    (bm, bn), (n_q, n_k) = size, see.shape[-2:]
    see = np.broadcast_to(see, (*groups, n_q, n_k))
    shape = *groups, -(-n_q // bm), -(-n_k // bn)
    some, full = np.zeros(shape, bool), np.zeros(shape, bool)
    for b, h, row, column in np.ndindex(shape):
        tile = see[b, h, row * bm : (row + 1) * bm, column * bn : (column + 1) * bn]
        some[b, h, row, column] = tile.any()
        full[b, h, row, column] = tile.shape == size and tile.all()
    return some, full


@fuzz
@given(cases(), sizes)
def test_tiles_cover_what_is_visible(case, size):
    mask, n_q, n_k, q_start = case
    tiles = mask.tiles(n_q, n_k, size=size, q_start=q_start)
    some, full = by_loops(mask.dense(n_q, n_k, q_start), size, tiles.shape[:2])
    assert tiles.shape == tiles.visible.shape == tiles.full.shape == some.shape
    assert not (some & ~tiles.visible).any(), "a visible pair outside of the tiles"
    assert not (tiles.full & ~full).any(), "a full tile with a hidden pair"
    exact = mask.tiles(n_q, n_k, size=size, q_start=q_start, refine=True)
    assert_equal(exact.visible, some, label="visible")
    assert_equal(exact.full, full, label="full")


@fuzz
@given(cases(), sizes)
def test_lists_by_query_and_by_key_are_the_same_tiles(case, size):
    mask, n_q, n_k, q_start = case
    tiles = mask.tiles(n_q, n_k, size=size, q_start=q_start)
    partial = tiles.visible & ~tiles.full
    for lists, arrays in ((tiles.by_query(), (tiles.full, partial)), (tiles.by_key(), (tiles.full.mT, partial.mT))):
        for rows, array in zip(lists, arrays, strict=True):
            assert rows.offsets.dtype == rows.tiles.dtype == np.int32
            lines = array.reshape(-1, array.shape[-1]) if array.size else np.zeros((len(rows.offsets) - 1, 0), bool)
            assert len(rows.offsets) == len(lines) + 1
            for number, line in enumerate(lines):
                assert_equal(rows[number], np.flatnonzero(line))


@pytest.mark.parametrize("blocks", [1, 7, 2**14])
@given(case=cases(), size=sizes)
@settings(deadline=None, max_examples=25)
def test_the_walk_from_large_blocks_down_finds_the_same(blocks, case, size):
    mask, n_q, n_k, q_start = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mha.masks.walk.BLOCKS_AT_ONCE", blocks)
        tiles = mask.tiles(n_q, n_k, size=size, q_start=q_start, refine=True)
    some, full = by_loops(mask.dense(n_q, n_k, q_start), size, tiles.shape[:2])
    assert_equal(tiles.visible, some)
    assert_equal(tiles.full, full)


@pytest.mark.parametrize(("mask", "q_start"), in_turn(MASKS, [None, [-4, 30], 3]))
def test_every_kind_of_mask(mask, q_start):
    size = 16, 8
    tiles = mask.tiles(N_Q, N_K, size=size, q_start=q_start)
    some, full = by_loops(mask.dense(N_Q, N_K, q_start), size, tiles.shape[:2])
    assert not (some & ~tiles.visible).any()
    assert not (tiles.full & ~full).any()
    exact = mask.tiles(N_Q, N_K, size=size, q_start=q_start, refine=True)
    assert_equal(exact.visible, some)
    assert_equal(exact.full, full)


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_the_rule_on_spans_is_nearly_exact(mask):
    """At most a tenth of the tiles are left open in vain, unless the mask is nonsense."""
    tiles, exact = (mask.tiles(N_Q, N_K, size=(8, 8), refine=refine) for refine in (False, True))
    assert len(tiles.index) <= 1.1 * len(exact.index)
    assert exact.is_full.sum() <= 1.1 * tiles.is_full.sum()


@pytest.mark.parametrize(
    "mask",
    [
        causal,
        window(5, 0),
        window(40, 3),
        ~window(9, 9),
        causal & window(20, 0),
        lengths([0, 29]),
        causal & lengths([7, 31]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_q", [1, 17, 31, 47])
def test_the_rule_on_spans_settles_every_tile(mask, n_q):
    quick = mask.tiles(n_q, 31, size=(8, 4))
    exact = mask.tiles(n_q, 31, size=(8, 4), refine=True)
    assert_equal(quick.index, exact.index)
    assert_equal(quick.is_full, exact.is_full)


def test_a_band_costs_its_length():
    """A window of 256 keys at 2²⁰ positions, where an array of all tiles of 128 × 128 has 67 million entries."""
    mask, n = window(255, 0), 2**20
    started = perf_counter()
    tracemalloc.start()
    tiles = mask.tiles(n, n, size=(128, 128))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert perf_counter() - started < 10  # 0.4 s on an idle core; tracing and a busy machine take their part
    assert peak < 100e6
    assert len(tiles.index) == 3 * (n // 128) - 3
    assert tiles.is_full.sum() == n // 128 - 1


def test_tables_of_torch():
    mask = causal & lengths(torch.tensor([3, 11])) & dense(torch.ones(7, 11, dtype=torch.bool))
    assert_equal(mask.tiles(7, 11, size=(2, 2)).full, (causal & lengths([3, 11])).tiles(7, 11, size=(2, 2)).full)


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (64, TypeError, r"size is 64: expected \(query rows, key columns\) of a tile"),
        ((64,), TypeError, r"size is \(64,\)"),
        ((0, 8), ValueError, r"size\[0\] is 0: expected at least 1"),
        ((8, 2.5), TypeError, r"size\[1\] is 2\.5: expected an integer"),
    ],
)
def test_a_wrong_size(size, error, message):
    with pytest.raises(error, match=message):
        causal.tiles(5, 5, size=size)


def test_wrong_lengths():
    with pytest.raises(ValueError, match=r"mask has shape \(3, 3\): expected \(i, j\) = \(4, 3\)"):
        dense(np.ones((3, 3), bool)).tiles(4, 3, size=(2, 2))
    with pytest.raises(ValueError, match="n_q is -1: expected at least 0"):
        masks.causal.tiles(-1, 3, size=(2, 2))
