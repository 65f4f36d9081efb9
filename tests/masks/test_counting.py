"""Pairs and empty rows against the dense array."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

from compare import assert_equal
from masks.cases import cases
from masks.every import every, in_turn
from mha.masks import causal, window
from mha.masks.counting import any_visible, count_pairs, find_empty_rows

MASKS = every(37, 53, 2, 3)
fuzz = settings(deadline=None, max_examples=50)


@fuzz
@given(cases())
def test_pairs_and_empty_rows_are_those_of_the_dense_array(case):
    mask, n_q, n_k, q_start = case
    see = mask.dense(n_q, n_k, q_start)
    assert count_pairs(mask, n_q, n_k, q_start) == see.sum()
    assert any_visible(mask, n_q, n_k, q_start) == see.any()
    assert_equal(find_empty_rows(mask, n_q, n_k, q_start), np.argwhere(~see.any(-1)))


@pytest.mark.parametrize("blocks", [1, 7])
@given(case=cases())
@settings(deadline=None, max_examples=25)
def test_from_large_blocks_down_the_same(blocks, case):
    mask, n_q, n_k, q_start = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mha.masks.walk.BLOCKS_AT_ONCE", blocks)
        patch.setattr("mha.masks.counting.TILE", (4, 2))
        pairs, rows = count_pairs(mask, n_q, n_k, q_start), find_empty_rows(mask, n_q, n_k, q_start)
    see = mask.dense(n_q, n_k, q_start)
    assert pairs == see.sum()
    assert_equal(rows, np.argwhere(~see.any(-1)))


@pytest.mark.parametrize(("mask", "q_start"), in_turn(MASKS, [None, [-4, 30], 3]))
def test_every_kind_of_mask(mask, q_start):
    see = mask.dense(37, 53, q_start)
    assert count_pairs(mask, 37, 53, q_start) == see.sum()
    assert_equal(find_empty_rows(mask, 37, 53, q_start), np.argwhere(~see.any(-1)))


def test_causal_pairs_are_counted_by_area():
    n = 2**20
    assert count_pairs(causal, n, n) == n * (n + 1) // 2
    assert find_empty_rows(causal, n, n - 3).tolist() == [[0], [1], [2]]


def test_a_long_window_needs_little_memory():
    n = 2**18
    tracemalloc.start()
    pairs = count_pairs(window(255, 0), n, n)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pairs == 256 * n - 255 * 128
    assert peak < 30e6


def test_the_first_visible_pair_is_enough():
    looked_at = []

    class Seen(type(causal)):
        def __call__(self, b, h, i, j):
            looked_at.append(i)
            return super().__call__(b, h, i, j)

    assert any_visible(Seen(), 2**20, 2**20)
    assert len(looked_at) < 20
