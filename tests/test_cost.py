"""Counted by formula, counted by hand."""

import pytest
import torch

from mha import masks
from mha.cost import attention_flops, attention_parameters


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_heads", [1, 3, 7])
def test_attention_parameters_of_torch(num_heads, bias):
    module = torch.nn.MultiheadAttention(21, num_heads, bias=bias)
    assert attention_parameters(21, num_heads, bias=bias) == sum(p.numel() for p in module.parameters())


def test_attention_parameters_of_grouped_heads():
    """q 20·(6·5) + 30, k and v 20·(2·5) + 10 each, output (6·5)·20 + 20."""
    assert attention_parameters(20, 6, num_kv_heads=2, d_head=5) == 630 + 2 * 210 + 620
    assert attention_parameters(512, 8, bias=False) == 4 * 512**2


def test_attention_flops_are_those_of_the_loops():
    """One multiply and one add for each step of each loop."""
    n, n_k, d_model, num_heads, num_kv_heads, d_head = 3, 5, 14, 6, 2, 7
    steps = 0
    steps += n * d_model * num_heads * d_head  # q
    steps += 2 * n_k * d_model * num_kv_heads * d_head  # k, v
    steps += num_heads * n * n_k * d_head  # scores
    steps += num_heads * n * n_k * d_head  # mix
    steps += n * num_heads * d_head * d_model  # output
    assert attention_flops(n, d_model, num_heads, n_k=n_k, num_kv_heads=num_kv_heads, d_head=d_head) == 2 * steps


def test_attention_flops_formula():
    n, d = 11, 35
    assert attention_flops(n, d, 5) == 8 * n * d**2 + 4 * n**2 * d
    causal = attention_flops(n, d, 5, pairs=masks.causal.pairs(n, n))
    assert causal == 8 * n * d**2 + 4 * (n * (n + 1) // 2) * d
    assert attention_flops(0, d, 5) == 0


def test_attention_flops_equal_torchs_counter():
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(1, 11, 35)
    w = torch.zeros(35, 35)
    with FlopCounterMode(display=False) as counter:
        q, k, v = ((x @ w).view(1, 11, 5, 7).transpose(1, 2) for _ in range(3))
        (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(1, 11, 35) @ w
    assert attention_flops(11, 35, 5) == counter.get_total_flops()


def test_misfits_are_named():
    with pytest.raises(ValueError, match="d_model is 10 and num_heads is 3, remainder 1"):
        attention_parameters(10, 3)
    with pytest.raises(ValueError, match="num_kv_heads is 4 and num_heads is 6: query heads must be a multiple"):
        attention_flops(3, 12, 6, num_kv_heads=4)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": -1}, ValueError, "n is -1: expected at least 0"),
        ({"n": 3.0}, TypeError, r"n is 3\.0: expected an integer"),
        ({"n_k": -5}, ValueError, "n_k is -5: expected at least 0"),
        ({"d_model": -12}, ValueError, "d_model is -12: expected at least 1"),
        ({"d_model": 12.0}, TypeError, r"d_model is 12\.0: expected an integer"),
        ({"num_heads": 0}, ValueError, "num_heads is 0: expected at least 1"),
        ({"num_kv_heads": 0}, ValueError, "num_kv_heads is 0: expected at least 1"),
        ({"d_head": -1}, ValueError, "d_head is -1: expected at least 1"),
        ({"pairs": 16}, ValueError, r"pairs is 16: expected at most n · n_k = 15"),
        ({"pairs": -1}, ValueError, "pairs is -1: expected at least 0"),
    ],
)
def test_sizes_are_counts(change, error, message):
    arguments = {"n": 3, "d_model": 12, "num_heads": 6, "n_k": 5} | change
    with pytest.raises(error, match=message):
        attention_flops(**arguments)
    if not change.keys() & {"n", "n_k", "pairs"}:
        with pytest.raises(error, match=message):
            attention_parameters(**{name: x for name, x in arguments.items() if name not in ("n", "n_k")})
