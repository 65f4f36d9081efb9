"""The gradient of a bias: every entry hears of all pairs that it was added to, in many tiles."""

import math

import numpy as np
import pytest
import torch

from compare import assert_equal
from kernels.calls import normal
from kernels.judge import check
from kernels.test_backward import drawn, small_tiles
from mha import kernels, masks
from mha.dropout import Dropout

__all__ = ["small_tiles"]
N_Q, N_K = 19, 35


def with_bias(*shape, **options):
    call = drawn(batch=2, heads=2, groups=1, n_q=N_Q, n_k=N_K, **options)
    call.bias = normal(np.random.default_rng(3), *shape).float()
    return call


@pytest.mark.parametrize(
    "shape",
    [(2, 2, N_Q, N_K), (2, N_Q, N_K), (2, 1, N_Q, N_K), (N_Q, N_K), (2, 1, 1, N_K), (2, 1, N_K), (1, N_K)],
    ids=str,
)
def test_a_bias_that_tells_keys_apart(shape):
    check(with_bias(*shape, mask=masks.causal), kernels)


@pytest.mark.parametrize("shape", [(2, 2, N_Q, 1), (2, 1, 1), (N_Q, 1), (2, 1, 1, 1), (1,)], ids=str)
@pytest.mark.parametrize("sinks", [False, True])
def test_a_bias_that_moves_whole_rows(shape, sinks):
    call = with_bias(*shape, mask=masks.causal, q_start=-2)  # two rows see nothing
    if sinks:
        call.sinks = torch.tensor([0.5, -1.0])
    call.d_lse = normal(np.random.default_rng(4), 2, 2, N_Q).float()
    check(call, kernels)


def test_a_bias_that_hides():
    call = with_bias(2, N_Q, N_K, softcap=1.3, dropout=Dropout(0.25, 11))
    call.bias[:, :, ::3] = -math.inf
    call.bias[1, 5] = -math.inf
    check(call, kernels)


def test_what_is_hidden_may_hold_anything():
    call = with_bias(2, N_Q, N_K, mask=masks.lengths([N_K, 12]))
    before = pulled(call)
    call.k[1, :, 14], call.v[1, :, 17] = torch.nan, torch.inf
    assert_equal(pulled(call), before)


def pulled(call):
    bias = call.bias.clone().requires_grad_()
    out = kernels.attention(call.q, call.k, call.v, **call.arguments() | {"bias": bias})
    return torch.autograd.grad(out, bias, call.d_out)[0]


def test_the_gradient_has_the_dtype_of_the_bias():
    call = with_bias(N_Q, N_K, dtype=torch.float16)
    call.bias = call.bias.half()
    assert pulled(call).dtype == torch.float16
