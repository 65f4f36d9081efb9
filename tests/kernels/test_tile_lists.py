import numpy as np
import pytest
import torch

from compare import assert_equal
from masks.every import every
from mha import kernels, masks
from mha.kernels.dot_product import problem
from mha.kernels.teaching import counted_traffic
from mha.kernels.tile_lists import lists_of
from mha.kernels.tile_sizes import TileSize

N_Q, N_K, BATCH, HEADS, SIZE = 37, 53, 2, 3, (8, 16)
MASKS = every(N_Q, N_K, BATCH, HEADS)


def read(lists, b, h, num_tiles):
    """Return (full, partial) of each tile as a kernel reads them."""
    table = lists.table.numpy()
    found = {}
    for place in range(num_tiles):
        tile, begin, middle, end = table[4 * (b * lists.line_b + h * lists.line_h + place) :][:4]
        found[int(tile)] = table[begin:middle].tolist(), table[middle:end].tolist()
    return found


@pytest.mark.parametrize("by_key", [False, True], ids=["by query", "by key"])
@pytest.mark.parametrize("name", MASKS)
def test_a_kernel_finds_the_tiles_of_the_mask(name, by_key):
    tiles = MASKS[name].tiles(N_Q, N_K, size=SIZE)
    lists = lists_of(tiles, "cpu", by_key=by_key)
    assert lists.table.dtype == torch.int32
    shown = [np.broadcast_to(x, (BATCH, HEADS, *tiles.shape[2:])) for x in (tiles.full, tiles.visible & ~tiles.full)]
    for b, h in np.ndindex(BATCH, HEADS):
        full, partial = (x[b, h].T if by_key else x[b, h] for x in shown)
        found = read(lists, b, h, len(full))
        assert sorted(found) == list(range(len(full)))
        for line, (of_full, of_partial) in found.items():
            assert of_full == np.flatnonzero(full[line]).tolist()
            assert of_partial == np.flatnonzero(partial[line]).tolist()


def test_the_longest_lists_come_first_and_in_one_order_for_all():
    lists = lists_of(masks.causal.tiles(64, 64, size=(8, 16)), "cpu")
    assert lists.table[: 4 * 8 : 4].tolist() == [6, 7, 4, 5, 2, 3, 0, 1]
    of_heads = masks.per_head([masks.causal, ~masks.causal, masks.causal])
    lists = lists_of(of_heads.tiles(64, 64, size=(8, 16)), "cpu")
    orders = lists.table[: 4 * 24 : 4].reshape(3, 8)
    assert_equal(orders, orders[:1].expand(3, 8))


@pytest.mark.parametrize(
    ("mask", "in_runs"),
    [
        (masks.causal, True),
        (masks.window(20, 20), True),
        (masks.segments([0] * 20 + [1] * 44), True),
        (masks.window(9, 9) | masks.prefix(8), False),
        (masks.dense(np.zeros((64, 64), bool)), True),
    ],
    ids=str,
)
def test_full_tiles_that_follow_one_another_are_known(mask, in_runs):
    tiles = mask.tiles(64, 64, size=(4, 4))
    lists = lists_of(tiles, "cpu")
    assert lists.in_runs == in_runs
    gaps = [np.diff(full) for full, _ in read(lists, 0, 0, 16).values()]
    assert in_runs == all((gap == 1).all() for gap in gaps)


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 5), (5, 0), (0, 0), (1, 1)])
def test_lengths_of_nothing(n_q, n_k):
    for by_key in (False, True):
        lists = lists_of(masks.causal.tiles(n_q, n_k, size=SIZE), "cpu", by_key=by_key)
        assert len(lists.table) == 4 * min(1, n_k if by_key else n_q) + min(1, n_q * n_k)


@pytest.mark.parametrize("name", ["causal", "window"])
def test_kernels_multiply_the_listed_tiles_and_no_others(monkeypatch, name):
    """Forward two products a tile, backward three for the queries and four for keys and values."""
    size = TileSize(16, 16, 4, 1)
    monkeypatch.setattr(problem, "tile_size", lambda *_, **__: size)
    mask = {"causal": masks.causal, "window": masks.window(3, 9)}[name]
    q, k, v = (torch.ones(1, n, 16, requires_grad=True) for n in (N_Q, N_K, N_K))
    visited = len(mask.tiles(N_Q, N_K, size=size[:2], q_start=N_K - N_Q).index)
    with counted_traffic() as forward:
        out = kernels.attention(q, k, v, mask=mask)
    with counted_traffic() as backward:
        torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
    assert (forward.products, backward.products) == (2 * visited, (3 + 4) * visited)
    assert visited < 12
