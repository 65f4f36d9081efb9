"""Tiles, pairs and empty rows against the dense array, for masks composed at random."""

import tracemalloc
from time import perf_counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import assert_equal
from mha import masks
from mha.masks import causal, dense, lengths, window
from mha.masks.tiles import count_pairs, find_empty_rows

BATCH, HEADS = 2, 3
fuzz = settings(deadline=None, max_examples=200)


def a_table(draw, n_q, n_k):
    """A dense mask with any of its axes told apart, in patches, so that some tiles are full and some empty."""
    told = draw(st.tuples(*[st.booleans()] * 4))
    shape = [size if this else 1 for this, size in zip(told, (BATCH, HEADS, n_q, n_k), strict=True)]
    patch = draw(st.sampled_from([1, 4, 11]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    coarse = rng.random((shape[0], shape[1], shape[2] // patch + 1, shape[3] // patch + 1)) < 0.5
    return dense(coarse.repeat(patch, 2).repeat(patch, 3)[:, :, : shape[2], : shape[3]])


@st.composite
def cases(draw):
    """A mask, the lengths that it serves and where its queries start."""
    n_q, n_k = draw(st.sampled_from([(0, 0), (0, 5), (5, 0), (1, 1), (1, 23), (23, 1), (19, 19), (13, 37), (41, 17)]))
    sample = st.lists(st.integers(0, n_k), min_size=BATCH, max_size=BATCH)
    leaves = st.one_of(
        st.just(causal),
        st.builds(window, st.integers(0, 20), st.integers(0, 20)),
        st.builds(lengths, sample),
        st.builds(a_table, st.just(draw), st.just(n_q), st.just(n_k)),
    )
    compositions = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=6,
    )
    starts = st.one_of(st.none(), st.integers(-9, 40), st.lists(st.integers(-9, 40), min_size=BATCH, max_size=BATCH))
    return draw(compositions), n_q, n_k, draw(starts)


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
@given(cases())
def test_pairs_and_empty_rows_are_those_of_the_dense_array(case):
    mask, n_q, n_k, q_start = case
    see = mask.dense(n_q, n_k, q_start)
    assert count_pairs(mask, n_q, n_k, q_start) == see.sum()
    assert_equal(find_empty_rows(mask, n_q, n_k, q_start), np.argwhere(~see.any(-1)))


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
@settings(deadline=None, max_examples=60)
def test_the_walk_from_large_blocks_down_finds_the_same(blocks, case, size):
    mask, n_q, n_k, q_start = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mha.masks.tiles.BLOCKS_AT_ONCE", blocks)
        tiles = mask.tiles(n_q, n_k, size=size, q_start=q_start, refine=True)
        pairs, rows = count_pairs(mask, n_q, n_k, q_start), find_empty_rows(mask, n_q, n_k, q_start)
    some, full = by_loops(mask.dense(n_q, n_k, q_start), size, tiles.shape[:2])
    assert_equal(tiles.visible, some)
    assert_equal(tiles.full, full)
    assert pairs == mask.dense(n_q, n_k, q_start).sum()
    assert len(rows) == (~mask.dense(n_q, n_k, q_start).any(-1)).sum()


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
    pairs = count_pairs(mask, n, n)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert perf_counter() - started < 10  # 0.4 s on an idle core; tracing and a busy machine take their part
    assert peak < 100e6
    assert len(tiles.index) == 3 * (n // 128) - 3
    assert tiles.is_full.sum() == n // 128 - 1
    assert pairs == 256 * n - 255 * 128


def test_causal_pairs_are_counted_by_area():
    n = 2**20
    assert count_pairs(causal, n, n) == n * (n + 1) // 2
    assert find_empty_rows(causal, n, n - 3).tolist() == [[0], [1], [2]]


def test_tables_of_torch():
    mask = causal & lengths(torch.tensor([3, 11])) & dense(torch.ones(7, 11, dtype=torch.bool))
    assert_equal(mask.tiles(7, 11, size=(2, 2)).full, (causal & lengths([3, 11])).tiles(7, 11, size=(2, 2)).full)
    assert count_pairs(mask, 7, 11) == mask.dense(7, 11).sum()


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
