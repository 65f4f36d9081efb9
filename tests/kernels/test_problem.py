import gc
import math
import weakref

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, shapes
from mha.dropout import Dropout
from mha.kernels.dot_product import problem
from mha.kernels.dot_product.problem import problem_of
from mha.kernels.tile_sizes import TileSize

SMALL = TileSize(16, 32, 4, 1)


def made(n_q=37, n_k=41, batch=2, sizes=None, **options):
    q, k = torch.zeros(batch, 4, n_q, 16), torch.zeros(batch, 2, n_k, 16)
    return problem_of(shapes.check(q, k, k, **options), q, k, k, sizes=sizes)


def test_scores_are_in_base_2():
    assert made(scale=0.5).base_2() == (0.5 * math.log2(math.e), None)
    assert made(scale=0.5, softcap=4.0).base_2() == (0.125, 4.0 * math.log2(math.e))


def test_no_option_costs_nothing():
    plain = made()
    assert plain.rules() == (None, None)
    assert plain.bias_arguments() == (None, 0, 0, 0, 0)
    assert plain.dropout_arguments() == (None, None)
    assert {one.lists.table for one in plain.passes.values()} == {None}


@pytest.mark.parametrize(
    "seed", [5, torch.tensor(2**40, dtype=torch.int64), torch.tensor(7, dtype=torch.int32)], ids=str
)
def test_the_seed_is_a_tensor_of_64_bits(seed):
    found, p = made(dropout=Dropout(0.25, seed)).dropout_arguments()
    assert (found.dtype, found.tolist(), p) == (torch.int64, [int(seed)], 0.25)


@pytest.mark.parametrize(
    ("q_start", "dtype", "expected"),
    [
        (None, torch.int32, [4]),
        (-3, torch.int32, [-3]),
        ([0, 9], torch.int32, [0, 9]),
        (torch.tensor([5, 5]), torch.int32, [5, 5]),
        (2**31 - 79, torch.int32, [2**31 - 79]),
        (78 - 2**31, torch.int64, [78 - 2**31]),
        ([-(2**40), 3], torch.int64, [-(2**40), 3]),
    ],
    ids=str,
)
def test_where_queries_stand(q_start, dtype, expected):
    start = made(q_start=q_start).start
    assert (start.dtype, start.tolist()) == (dtype, expected)


def test_lists_are_made_once_for_masks_that_hold_the_same(monkeypatch):
    ids = np.repeat([0, 1], [17, 20]), np.repeat([0, 1], [20, 21])
    problem._read_once.cache_clear()
    for start in (None, [4, 7]):
        one, other = (made(mask=masks.causal & masks.segments(*ids), q_start=start, sizes=None) for _ in range(2))
        assert one.passes["forward"].lists.table is other.passes["forward"].lists.table
    assert made(mask=masks.causal & masks.segments(ids[0] * 2, ids[1]), q_start=[4, 7]).tables[-1] is not one.tables[-1]
    assert problem._read_once.cache_info().misses == 3
    monkeypatch.setattr(problem, "MOST_KEPT", 10)
    made(mask=masks.causal & masks.segments(*ids))
    assert problem._read_once.cache_info().hits == 2


def test_tables_on_a_device_are_waited_for_once(monkeypatch):
    mask, start = masks.causal & masks.lengths(torch.tensor([17, 41])), torch.tensor([3, 5])
    read, cpu = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: read.append(x) or cpu(x))
    for _ in range(2):
        made(mask=mask, q_start=start)
        assert [x.tolist() for x in read] == [[17, 41], [3, 5]]
        read.clear()


def test_what_a_captured_graph_reads_outlives_the_cache(monkeypatch):
    monkeypatch.setattr(problem, "OF_GRAPHS", [])
    for captured in (False, True):
        monkeypatch.setattr(problem.runtime, "is_captured", lambda device, now=captured: now)
        table = weakref.ref(made(mask=masks.window(3, 5)).passes["forward"].lists.table)
        problem._read_once.cache_clear()
        gc.collect()
        assert (table() is not None) == captured


def test_each_pass_walks_the_lists_of_its_own_tiles():
    found = made(mask=masks.window(9, 0), sizes={"dkdv": SMALL, "dq": SMALL}).passes
    tiles = masks.window(9, 0).tiles(37, 41, size=SMALL[:2])
    assert found["dq"].lists.table[: 4 * 3 : 4].numel() == tiles.shape[2] == 3
    assert found["dkdv"].lists.table[: 4 * 2 : 4].sort().values.tolist() == [0, 1]
    assert found["forward"].size not in (SMALL, found["dq"].size)
    for name in ("dq", "dkdv"):
        lists = found[name].lists
        assert len(lists.table) == 4 * tiles.shape[2 if name == "dq" else 3] + len(tiles.index)
    assert_equal(found["dq"].lists.line_b, 0)
