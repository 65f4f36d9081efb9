"""Shapes without numbers, and graphs made by hand: no decision may then depend on a number."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from compare import assert_equal
from mha import masks
from mha.nn import MultiHeadAttention, Rotary, attention, attention_stats, attention_weights

OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal},
    "lengths": {"mask": masks.lengths([3, 5]) & masks.window(2, 0)},
    "formula": {"softcap": 2.0, "mask": masks.causal},
}
by_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def check_shapes(x, options):
    out, stats = attention_stats(x, x, x, **options)
    assert out.shape == x.shape
    assert stats.lse.shape == x.shape[:-1]
    assert attention_weights(x, x, **options).shape == (2, 3, 5, 5)
    assert torch.autograd.grad(out.sum(), x)[0].shape == x.shape


@by_option
def test_meta_device(options):
    check_shapes(torch.randn(2, 3, 5, 7, device="meta", requires_grad=True), options)


@by_option
def test_fake_tensors(options):
    with FakeTensorMode():
        check_shapes(torch.randn(2, 3, 5, 7, requires_grad=True), options)


@by_option
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_graph_of_plain_operators(options, mode):
    def call(x):
        return attention(x, x, x, **options)

    x = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_equal(make_fx(call, tracing_mode=mode)(x)(x), call(x), rtol=1e-13)


def test_a_layer_without_memory():
    layer = MultiHeadAttention(12, 2, position=Rotary(), device="meta")
    x = torch.randn(2, 5, 12, device="meta")
    assert layer(x, mask=masks.causal, positions=torch.arange(5, device="meta")).shape == x.shape
