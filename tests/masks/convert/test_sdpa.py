"""What SDPA and ONNX's Attention are told, run there and compared with the reference."""

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import rounding
from compare import assert_equal
from masks.every import every, in_turn
from mha import reference
from mha.masks import causal, dense, lengths, window

N_Q, N_K, BATCH, HEADS, WIDTH = 11, 13, 2, 3, 5
MASKS = every(N_Q, N_K, BATCH, HEADS)


def draw(n_q=N_Q, n_k=N_K):
    rng = np.random.default_rng(7)
    return [rng.standard_normal((BATCH, HEADS, n, WIDTH)) for n in (n_q, n_k, n_k)]


def sdpa(q, k, v, arguments):
    return F.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), **arguments)


def onnx_attention(q, k, v, arguments):
    """Run one node Attention of opset 23 in ONNX's own evaluator."""
    given = {"q": q, "k": k, "v": v} | ({"mask": arguments["attn_mask"]} if "attn_mask" in arguments else {})
    kinds = {name: TensorProto.BOOL if x.dtype == bool else TensorProto.DOUBLE for name, x in given.items()}
    node = helper.make_node("Attention", list(given), ["out"], is_causal=arguments.get("is_causal", 0))
    inputs = [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in given.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("out", TensorProto.DOUBLE, q.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    onnx.checker.check_model(model)
    return ReferenceEvaluator(model).run(None, given)[0]


@pytest.mark.parametrize(("mask", "q_start"), in_turn(MASKS, [None, 0, [1, 4]]))
def test_the_same_attention(mask, q_start):
    q, k, v = draw()
    expected = reference.attention(q, k, v, mask=mask, q_start=q_start)
    close = rounding.of_output(q, k, v)
    assert_equal(sdpa(q, k, v, mask.to_sdpa(N_Q, N_K, q_start)), expected, atol=close, label="sdpa")
    assert_equal(onnx_attention(q, k, v, mask.to_onnx(N_Q, N_K, q_start)), expected, atol=close, label="onnx")


TRIANGLE = np.tri(N_Q, N_K, dtype=bool)


@pytest.mark.parametrize(
    ("mask", "n_q", "n_k", "q_start", "equal"),
    [
        (causal, 7, 7, None, True),
        (causal, 7, 9, None, False),  # our queries end at the last key, torch's triangle begins at the first
        (causal, 7, 9, 0, True),
        (causal, 9, 7, 0, True),
        (causal, 7, 7, 1, False),
        (causal, 7, 7, [0, 0], True),
        (causal, 7, 7, [0, 1], False),
        (causal, 1, 1, None, False),  # one pair: all is visible
        (window(8, 0), 7, 7, None, True),
        (window(6, 0), 7, 7, None, True),
        (window(5, 0), 7, 7, None, False),
        (window(9, 9), 7, 7, None, False),
        (causal & lengths([7, 7]), 7, 7, None, True),
        (causal & lengths([7, 6]), 7, 7, None, False),
        (dense(TRIANGLE), N_Q, N_K, None, True),
        (dense(np.broadcast_to(TRIANGLE, (2, 3, N_Q, N_K))), N_Q, N_K, 5, True),
        (dense(TRIANGLE ^ (np.arange(N_K) == 12)), N_Q, N_K, None, False),
        (~~causal, 7, 7, None, True),
        (~(~causal | lengths([0])), 7, 7, 0, True),
        (causal & ~lengths([1]), 7, 7, 0, False),
        (window(2, 0), 7, 7, 21, False),  # queries that stand far behind the last key see nothing
        (lengths([1]), 7, 7, 15, False),
    ],
    ids=repr,
)
def test_is_causal_only_where_it_is_equal(mask, n_q, n_k, q_start, equal):
    see = mask.dense(n_q, n_k, q_start)
    assert bool((see == np.tri(n_q, n_k, dtype=bool)).all()) == equal or see.all(), "the case says so"
    assert (mask.to_sdpa(n_q, n_k, q_start) == {"is_causal": True}) == equal
    assert (mask.to_onnx(n_q, n_k, q_start) == {"is_causal": 1}) == equal


def test_nothing_is_said_where_all_is_visible():
    assert window(9, 9).to_sdpa(3, 5) == {}
    assert lengths([5, 5]).to_sdpa(3, 5) == lengths([5, 5]).to_onnx(3, 5) == {}
    assert causal.to_sdpa(1, 5) == {}
    assert causal.to_sdpa(1, 1) == {}
    assert dense(np.ones((3, 5), bool)).to_sdpa(3, 5) == {}


def test_a_long_causal_mask_is_not_drawn():
    assert causal.to_sdpa(2**20, 2**20) == {"is_causal": True}
    assert causal.to_onnx(2**20, 2**20) == {"is_causal": 1}


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="lengths holds 4 and there are 3 keys"):
        lengths([4]).to_sdpa(3, 3)


def test_no_queries_and_no_keys():
    assert causal.to_sdpa(0, 3) == {}
    assert causal.to_sdpa(3, 0) == {}
