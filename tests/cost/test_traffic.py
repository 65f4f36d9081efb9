"""Bytes moved by formula, and the bytes of what torch's operators read and write."""

import pytest
import torch

from cost import counting
from mha.cost import composed_traffic, flash_traffic, fused_traffic, tile_rows

DTYPES = [torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_composed_traffic_of_torchs_operators(dtype):
    q, k, v = (torch.zeros(2 * 3, n, d, dtype=dtype) for n, d in ((11, 5), (13, 5), (13, 7)))
    moved = counting.traffic(lambda: torch.softmax(q @ k.mT, -1) @ v)
    sizes = {"n_k": 13, "d_value": 7, "batch": 2}
    assert composed_traffic(11, 3, 5, **sizes, itemsize=dtype.itemsize) == moved


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_traffic_of_torchs_operator(dtype):
    """The operator writes the log-sum-exp of each row as well."""
    q, k, v = (torch.zeros(2, 3, n, 5, dtype=dtype) for n in (11, 13, 13))
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    moved = counting.traffic(lambda: fused(q, k, v))
    assert fused_traffic(11, 3, 5, n_k=13, batch=2, itemsize=dtype.itemsize) == moved - 2 * 3 * 11 * 4


def test_grouped_heads_by_hand():
    """6 query heads of 11 rows on 2 key heads of 13: q and output 6·11·(5 + 7), k and v 2·13·(5 + 7)."""
    sizes = {"n_k": 13, "num_kv_heads": 2, "d_value": 7}
    assert composed_traffic(11, 6, 5, **sizes) == 2 * (792 + 312 + 4 * 6 * 11 * 13)
    assert fused_traffic(11, 6, 5, **sizes) == 2 * (792 + 312)
    assert fused_traffic(0, 6, 5, **sizes) == 2 * 312


def test_tiles_by_loops():
    """Whoever holds `tile` rows at a time reads the keys and values of the head once for each handful."""
    n, heads, groups, d, n_k = 11, 6, 2, 5, 13
    for tile in (1, 2, 16, 32, 33, 100):
        moved = 2 * heads * n * d
        for _ in range(groups):
            rows = list(range(n * heads // groups))
            while rows:
                rows = rows[tile:]
                moved += 2 * n_k * d
        assert fused_traffic(n, heads, d, n_k=n_k, num_kv_heads=groups, tile=tile, itemsize=1) == moved


@pytest.mark.parametrize("traffic", [composed_traffic, fused_traffic])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": -1}, "n is -1: expected at least 0"),
        ({"n_k": -1}, "n_k is -1: expected at least 0"),
        ({"d_head": 0}, "d_head is 0: expected at least 1"),
        ({"d_value": 0}, "d_value is 0: expected at least 1"),
        ({"num_kv_heads": 4}, "num_kv_heads is 4 and num_heads is 6: query heads must be a multiple"),
        ({"itemsize": 0}, "itemsize is 0: expected at least 1"),
        ({"batch": -1}, "batch is -1: expected at least 0"),
    ],
)
def test_sizes_are_counts(traffic, change, message):
    with pytest.raises(ValueError, match=message):
        traffic(**{"n": 3, "num_heads": 6, "d_head": 5} | change)


def test_a_tile_is_a_count():
    with pytest.raises(ValueError, match="tile is 0: expected at least 1"):
        fused_traffic(3, 6, 5, tile=0)


@pytest.mark.parametrize("memory", [30, 100, 1000, 4096, 166912, 232448])
@pytest.mark.parametrize(("d", "itemsize"), [(1, 2), (7, 2), (64, 4), (128, 2)])
def test_the_largest_tile_that_fits(memory, d, itemsize):
    def held(side):
        return 3 * side * d * itemsize + 4 * side * d + 4 * side**2

    if held(1) > memory:
        with pytest.raises(ValueError, match=f"memory is {memory}: expected at least {held(1)}"):
            tile_rows(memory, d, itemsize=itemsize)
        return
    side = tile_rows(memory, d, itemsize=itemsize)
    assert held(side) <= memory < held(side + 1)


def test_flash_traffic_by_loops():
    """2 samples, 3 heads, 11 queries of 13 keys, tiles of 4: q and output once, k and v three times, lse once."""
    memory = 4 * 5 * (3 * 2 + 4) + 4 * 4**2
    assert tile_rows(memory, 5) == 4
    moved = 0
    for _ in range(2 * 3):
        for _ in (4, 4, 3):
            moved += 2 * 2 * 13 * 5
        moved += 2 * 2 * 11 * 5 + 4 * 11
    assert flash_traffic(11, 3, 5, memory=memory, n_k=13, batch=2) == moved


def test_with_memory_to_spare_flash_moves_what_must_be_moved():
    assert flash_traffic(11, 3, 5, memory=10**6) == fused_traffic(11, 3, 5) + 4 * 3 * 11


def test_traffic_falls_with_the_memory_as_the_paper_says():
    """For long sequences and small memories: n² d² / memory, up to a constant (Dao et al., 2022, Theorem 2)."""
    few, many = (flash_traffic(2**20, 1, 64, memory=memory) for memory in (2**13, 2**15))
    assert 3.5 < few / many < 5.5
