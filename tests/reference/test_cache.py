"""`mha.reference.Cache` by hand, and chunks against the whole."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.reference import Cache, attention, cached_attention, gather_pages, paged_attention


def rows(*numbers):
    """One sample, one head, one column."""
    return np.array(numbers, float)[None, None, :, None]


def test_append_crop_and_reorder_by_hand():
    both = np.concatenate([rows(1, 2), rows(5, 6)])
    cache = Cache().append(both).append(both * 10)
    assert_equal(cache.rows[0][:, 0, :, 0], [[1, 2, 10, 20], [5, 6, 50, 60]])
    cut = cache.crop([3, 1])
    assert_equal(cut.rows[0][:, 0, :, 0], [[1, 2, 10], [5, 0, 0]])
    longer = cut.append(np.concatenate([rows(7), rows(8)]))
    assert_equal(longer.rows[0][:, 0, :, 0], [[1, 2, 10, 7], [5, 8, 0, 0]])
    assert_equal(longer.reorder([1, 1, 0]).lengths, [2, 2, 4])
    assert_equal(longer.reorder([1]).rows[0][:, 0, :, 0], [[5, 8]])
    assert_equal(cache.rows[0][:, 0, :, 0], [[1, 2, 10, 20], [5, 6, 50, 60]], label="the old cache")


def test_padding_in_front_is_not_kept():
    cache = Cache([-1, 0]).append(np.concatenate([rows(9, 1, 2), rows(3, 4, 5)]))
    assert_equal(cache.lengths, [2, 3])
    assert_equal(cache.rows[0][:, 0, :, 0], [[1, 2, 0], [3, 4, 5]])


def test_five_equal_keys_share_alike():
    """flax#5591, lit-llama#430: a causal mask aligned with the first key lets the newest query see that key alone."""
    zeros, values = np.zeros((1, 1, 5, 5)), np.eye(5)[None, None]
    _, cache = cached_attention(zeros[..., :4, :], zeros[..., :4, :], values[..., :4, :], Cache(), mask=masks.causal)
    out, _ = cached_attention(zeros[..., 4:, :], zeros[..., 4:, :], values[..., 4:, :], cache, mask=masks.causal)
    assert_equal(out[0, 0], [[0.2] * 5], atol=1e-16)


@pytest.mark.parametrize("chunks", [(7,), (1,) * 7, (3, 0, 2, 2), (0, 7)], ids=str)
@pytest.mark.parametrize("mask", [masks.causal, masks.window_of(2)], ids=repr)
def test_chunks_are_the_whole(chunks, mask):
    """candle#3743, executorch#21749: a second chunk that loses its history, or sees its future."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((2, 6, 7, 5)), rng.standard_normal((2, 3, 7, 5)), rng.standard_normal((2, 3, 7, 2))
    outputs, cache = [], Cache()
    for start, n in zip(np.cumsum((0, *chunks)), chunks, strict=False):
        out, cache = cached_attention(*(x[..., start : start + n, :] for x in (q, k, v)), cache, mask=mask)
        outputs.append(out)
    assert_equal(np.concatenate(outputs, -2), attention(q, k, v, mask=mask), atol=rounding.of_output(q, k, v))
    assert_equal(cache.lengths, [7, 7])


def test_a_mask_that_knows_the_lengths_ends_the_samples():
    rng = np.random.default_rng(1)
    q, k, v = rng.standard_normal((3, 2, 1, 4, 3))
    mask = masks.causal & masks.lengths(np.array([4, 2]))
    out, cache = cached_attention(q, k, v, Cache(), mask=mask)
    assert_equal(cache.lengths, [4, 2])
    alone = attention(q[1:, :, :2], k[1:, :, :2], v[1:, :, :2], mask=masks.causal)
    assert_equal(out[1:, :, :2], alone, atol=rounding.of_output(q, k, v))


def test_pages_by_hand():
    """Two samples share the first page; what lies behind their ends is not looked up."""
    pages = np.array([[0, 1], [10, 11], [20, 21]], float)[:, None, :, None]  # (pages, g, page, d)
    table, lengths = np.array([[2, 0], [2, 99]]), np.array([3, 2])
    rows = gather_pages(pages, table, lengths)
    assert_equal(rows[:, 0, :, 0], [[20, 21, 0, 0], [20, 21, 0, 0]])
    pages[0, :, 0] = 7
    assert_equal(gather_pages(pages, table, lengths)[0, 0, :, 0], [20, 21, 7, 0])
    out = paged_attention(np.zeros((2, 1, 1, 1)), np.zeros_like(pages), pages, table, lengths)
    assert_equal(out[:, 0, 0, 0], [16, 20.5], rtol=1e-15)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"page_table": np.array([[0, 1], [2, -1]])}, "page_table sends sample 1 to page -1: expected 0 to 2"),
        ({"page_table": np.array([[0, 3], [2, 1]])}, "page_table sends sample 0 to page 3: expected 0 to 2"),
        ({"page_table": np.zeros((1, 2), int)}, r"page_table has shape \(1, 2\) and .* expected \(2, p\) and \(2,\)"),
        ({"lengths": np.array([4])}, r"lengths has \(1,\): expected \(2, p\) and \(2,\)"),
    ],
)
def test_pages_that_do_not_exist_are_named(change, words):
    pages = np.zeros((3, 1, 2, 1))
    given = {"page_table": np.array([[0, 1], [2, 0]]), "lengths": np.array([4, 3])} | change
    with pytest.raises(ValueError, match=words):
        paged_attention(np.zeros((2, 1, 1, 1)), pages, pages, **given)


@pytest.mark.parametrize("mask", [None, masks.causal, masks.window_of(3)], ids=repr)
@pytest.mark.parametrize("page", [1, 3, 8])
def test_pages_are_the_cache_that_they_hold(page, mask):
    rng = np.random.default_rng(2)
    lengths = np.array([7, 0, 4])
    q, k, v = rng.standard_normal((3, 6, 2, 5)), rng.standard_normal((3, 2, 7, 5)), rng.standard_normal((3, 2, 7, 4))
    columns = -(-7 // page)
    table = rng.permutation(3 * columns).reshape(3, columns)
    pages = [np.full((3 * columns, 2, page, x.shape[-1]), np.nan) for x in (k, v)]
    for b, j in np.ndindex(3, 7):
        for into, rows in zip(pages, (k, v), strict=True):
            if j < lengths[b]:
                into[table[b, j // page], :, j % page] = rows[b, :, j]
    out = paged_attention(q, *pages, table, lengths, mask=mask)
    held = masks.lengths(lengths)
    expected = attention(q, k, v, mask=held if mask is None else held & mask, q_start=np.maximum(lengths - 2, 0))
    assert_equal(out, expected, atol=rounding.of_output(q, k, v))
    assert_equal(out[1], np.zeros_like(out[1]))
