"""To torch.nn.MultiheadAttention and back: there True means hidden."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rounding
from compare import assert_equal
from masks.every import every, in_turn
from mha import masks, reference
from mha.masks import causal, dense, key_padding, lengths, window
from mha.masks.convert import from_torch_mha

N_Q, N_K, BATCH, HEADS, WIDTH = 5, 7, 2, 3, 2
MASKS = every(N_Q, N_K, BATCH, HEADS)


def attend(q, k, v, arguments):
    """Run torch's module with projections that change nothing, so that it is attention alone."""
    width = HEADS * WIDTH
    module = torch.nn.MultiheadAttention(width, HEADS, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.eye(width, dtype=torch.float64).repeat(3, 1))
        module.out_proj.weight.copy_(torch.eye(width, dtype=torch.float64))
    rows = (torch.from_numpy(x).transpose(1, 2).flatten(2) for x in (q, k, v))
    out, _ = module(*rows, need_weights=True, **arguments)
    return out.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_the_same_attention(mask):
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((BATCH, HEADS, n, WIDTH)) for n in (N_Q, N_K, N_K))
    arguments = mask.to_torch_mha(N_Q, N_K, batch=BATCH, num_heads=HEADS)
    expected = reference.attention(q, k, v, mask=mask)
    empty = np.broadcast_to(~mask.dense(N_Q, N_K).any(-1), (BATCH, HEADS, N_Q)).any(1, keepdims=True)
    expected[np.broadcast_to(empty, (BATCH, HEADS, N_Q))] = np.nan  # what torch makes of a row that sees nothing
    assert_equal(attend(q, k, v, arguments), expected, atol=rounding.of_output(q, k, v))


@pytest.mark.parametrize(("mask", "q_start"), in_turn(MASKS, [None, 3, [0, 4]]))
def test_there_and_back(mask, q_start):
    arguments = mask.to_torch_mha(N_Q, N_K, batch=BATCH, num_heads=HEADS, q_start=q_start)
    back = from_torch_mha(**arguments, num_heads=HEADS)
    see = np.ones((N_Q, N_K), bool) if back is None else back.dense(N_Q, N_K)
    shape = BATCH, HEADS, N_Q, N_K
    assert_equal(np.broadcast_to(see, shape), np.broadcast_to(mask.dense(N_Q, N_K, q_start), shape))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.floats(0.3, 1), st.booleans(), st.booleans())
def test_back_and_there(seed, share, three, floats):
    rng = np.random.default_rng(seed)
    attn = rng.random((BATCH * HEADS, N_Q, N_K) if three else (N_Q, N_K)) > share
    padding = rng.random((BATCH, N_K)) > share
    given = {"attn_mask": torch.from_numpy(attn), "key_padding_mask": torch.from_numpy(padding)}
    if floats:
        given = {name: torch.zeros(x.shape).masked_fill(x, -math.inf) for name, x in given.items()}
    see = from_torch_mha(**given, num_heads=HEADS).dense(N_Q, N_K)
    hidden = np.broadcast_to(attn.reshape(BATCH, HEADS, N_Q, N_K) if three else attn, (BATCH, HEADS, N_Q, N_K))
    assert_equal(np.broadcast_to(see, hidden.shape), ~(hidden | padding[:, None, None]))


def test_each_key_is_hidden_by_the_simplest_argument():
    assert list(causal.to_torch_mha(3, 3)) == ["attn_mask"]
    assert_equal(causal.to_torch_mha(3, 3)["attn_mask"], ~np.tri(3, dtype=bool))
    arguments = lengths([1, 3]).to_torch_mha(2, 3)
    assert list(arguments) == ["key_padding_mask"]
    assert_equal(arguments["key_padding_mask"], [[False, True, True], [False, False, False]])
    arguments = (causal & lengths([2, 3])).to_torch_mha(3, 3)
    assert arguments["attn_mask"].shape == (3, 3)
    assert window(9, 9).to_torch_mha(3, 3) == {}
    heads = masks.per_head([causal, window(9, 9)])
    assert heads.to_torch_mha(3, 3, batch=5)["attn_mask"].shape == (10, 3, 3)


def test_from_one_argument_or_none():
    assert from_torch_mha() is None
    assert from_torch_mha(torch.zeros(3, 3, dtype=torch.bool)) == dense(np.ones((3, 3), bool))
    assert from_torch_mha(key_padding_mask=torch.tensor([False, True])) == key_padding([[True, False]])
    triangle = torch.nn.Transformer.generate_square_subsequent_mask(4)
    assert_equal(from_torch_mha(triangle).dense(4, 4), causal.dense(4, 4))
    assert_equal(from_torch_mha(triangle.numpy()).dense(4, 4), causal.dense(4, 4))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: from_torch_mha(torch.tensor([[0.0, 1.5]])), ValueError, "attn_mask holds numbers other.*bias="),
        (lambda: from_torch_mha(torch.tensor([[0.0, math.nan]])), ValueError, "attn_mask holds numbers other"),
        (lambda: from_torch_mha(torch.tensor([[0, 1]])), TypeError, "attn_mask has dtype torch.int64: expected bool"),
        (lambda: from_torch_mha([[True]]), TypeError, "attn_mask is a list: expected a tensor"),
        (lambda: from_torch_mha(np.ones(3, bool)), ValueError, r"attn_mask has shape \(3,\): expected \(i, j\) or"),
        (lambda: from_torch_mha(np.ones((6, 2, 2), bool)), ValueError, r"\(6, 2, 2\), \(b·h, i, j\): num_heads= says"),
        (lambda: from_torch_mha(np.ones((6, 2, 2), bool), num_heads=4), ValueError, "has 6 rows.*num_heads is 4"),
        (
            lambda: from_torch_mha(key_padding_mask=np.ones((1, 2, 2), bool)),
            ValueError,
            r"key_padding_mask has shape \(1, 2, 2\): expected \(b, j\)",
        ),
        (lambda: lengths([1, 2]).to_torch_mha(2, 2, batch=3), ValueError, "batch is 3 and the mask tells 2 apart"),
        (lambda: MASKS["per_head"].to_torch_mha(2, 2, num_heads=4), ValueError, "num_heads is 4.* tells 3 apart"),
    ],
)
def test_what_cannot_be_said(make, error, message):
    with pytest.raises(error, match=message):
        make()
