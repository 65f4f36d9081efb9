"""A mask that went through an operator is the mask that went in, in eager mode and in a graph of one piece."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from masks.every import every
from mha.dropout import Dropout
from mha.kernels.dot_product.operands import assembled, taken_apart
from mha.masks import Mask, query_start

N_Q, N_K, BATCH, HEADS = 11, 13, 2, 3
KINDS = every(N_Q, N_K, BATCH, HEADS)


@pytest.mark.parametrize("name", KINDS)
def test_a_mask_comes_back_as_it_was(name):
    mask = KINDS[name]
    start = query_start(mask, N_Q, N_K)
    back, place = assembled(*taken_apart((mask, start)))
    assert back == mask
    assert_equal(place, start)
    assert_equal(back.dense(N_Q, N_K, place), mask.dense(N_Q, N_K))


def test_the_text_holds_the_structure_alone():
    one, other = (taken_apart((KINDS["causal"] & mask, n)) for mask, n in ((KINDS["window"], 3), (KINDS["window"], 4)))
    assert one.text == other.text == "(And(Causal(), Window(n[0], n[1])), n[2], )"
    assert (one.numbers, other.numbers) == ([5, 2, 3], [5, 2, 4])


def test_dropout_and_nothing_come_back():
    seed = torch.tensor(7)
    back = assembled(*taken_apart((None, Dropout(0.1, 5), Dropout(0.25, seed))))
    assert back[:2] == (None, Dropout(0.1, 5))
    assert back[2].p == 0.25
    assert back[2].seed is seed


class _Own(Mask):
    @staticmethod
    def rule(at, b, h, i, j):
        return (i + j) % 2 == 0


def test_a_mask_of_ones_own_comes_back():
    assert assembled(*taken_apart(_Own() & KINDS["causal"])) == _Own() & KINDS["causal"]


@torch.library.custom_op("mha_test::dense", mutates_args=())
def _dense(text: str, numbers: list[int], tables: list[torch.Tensor], n_q: int, n_k: int) -> torch.Tensor:
    mask, start = assembled(text, numbers, tables)
    return torch.from_numpy(np.array(mask.dense(n_q, n_k, start)))


@_dense.register_fake
def _(text, numbers, tables, n_q, n_k):
    return torch.empty(BATCH, HEADS, n_q, n_k, dtype=torch.bool)


@pytest.mark.parametrize("name", ["causal window", "decoding", "heads of many kinds", "bigbird", "documents"])
def test_a_graph_takes_it_apart_too(name):
    mask = KINDS[name].on_tables(lambda table: torch.from_numpy(np.array(table)))

    @torch.compile(fullgraph=True, backend="eager")
    def picture(x):
        n_q, n_k = x.shape
        return _dense(*taken_apart((mask, query_start(mask, n_q, n_k))), n_q, n_k)

    assert_equal(picture(torch.empty(N_Q, N_K)), mask.dense(N_Q, N_K))
