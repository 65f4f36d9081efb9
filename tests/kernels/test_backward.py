"""The backward kernels where short rows fill many tiles, and where what may not be seen is not finite."""

import numpy as np
import pytest
import torch

import rounding
from compare import assert_equal
from kernels.calls import Call, normal
from kernels.judge import check
from mha import kernels, masks, reference
from mha.dropout import Dropout
from mha.kernels.tile_sizes import TileSize

MASKS = {
    "none": None,
    "causal": masks.causal,
    "a band beside global tokens": masks.window(9, 4) | masks.global_tokens([0, 33]),  # full tiles with gaps
    "packed sequences": masks.causal & masks.segments([0] * 13 + [1] * 20 + [2] * 8),
    "lengths": masks.lengths([41, 0]),
    "heads of two kinds": masks.per_head([masks.causal, masks.causal, masks.window(3, 3), masks.window(3, 3)]),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Cut scores into tiles of 16 queries and 32 keys, keys' own pass into 32 and 16."""
    sizes = {"dkdv": TileSize(32, 16, 4, 1)}
    for module in ("problem", "bias_gradient"):
        name = f"mha.kernels.dot_product.{module}.tile_size"
        monkeypatch.setattr(name, lambda kernel, *_, **__: sizes.get(kernel, TileSize(16, 32, 4, 1)))


def drawn(*, batch=1, heads=2, groups=2, n_q=41, n_k=41, width=8, value_width=8, dtype=torch.float32, **options):
    rng = np.random.default_rng(0)
    shapes = (heads, n_q, width), (groups, n_k, width), (groups, n_k, value_width), (heads, n_q, value_width)
    return Call(*(normal(rng, batch, *shape).to(dtype) for shape in shapes), **options)


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_many_tiles(mask):
    heads, batch = (4 if mask is MASKS["heads of two kinds"] else 2), (2 if mask is MASKS["lengths"] else 1)
    check(drawn(batch=batch, heads=heads, groups=1, value_width=5, mask=mask), kernels)


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (4, 1), (3, 3)])
def test_a_key_hears_of_all_heads_that_read_it(heads, groups):
    check(drawn(heads=heads, groups=groups, n_q=17, n_k=37, mask=masks.causal), kernels)


@pytest.mark.parametrize(("width", "value_width"), [(1, 3), (40, 16), (96, 33)])
def test_widths(width, value_width):
    check(drawn(heads=1, groups=1, n_q=15, n_k=33, width=width, value_width=value_width), kernels)


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 5), (5, 0), (1, 1), (1, 37), (37, 1), (16, 32), (17, 33)])
def test_lengths(n_q, n_k):
    check(drawn(n_q=n_q, n_k=n_k, mask=masks.causal), kernels)


def test_every_option_together():
    call = drawn(heads=4, groups=2, width=24, mask=masks.causal | masks.window(0, 5), softcap=0.9, scale=0.4)
    rng = np.random.default_rng(1)
    call.bias, call.sinks = normal(rng, 4, 41, 41).float(), normal(rng, 4).float()
    call.dropout, call.d_lse = Dropout(0.3, 2**40 + 7), normal(rng, 1, 4, 41).float()
    check(call, kernels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision(dtype):
    check(drawn(heads=4, groups=2, n_q=33, width=64, value_width=64, dtype=dtype, mask=masks.causal), kernels)


def test_the_gradient_of_lse_alone():
    call = drawn(sinks=torch.tensor([0.5, -1.0]), mask=masks.causal, n_q=43)
    call.d_out, call.d_lse = torch.zeros_like(call.d_out), normal(np.random.default_rng(2), 1, 2, 43).float()
    check(call, kernels)


def test_a_sum_sends_back_one_number():
    call = drawn(mask=masks.causal)
    call.d_out = torch.ones(()).expand(call.d_out.shape)
    check(call, kernels)


def test_the_same_call_gives_the_same_bits():
    call = drawn(heads=4, groups=2, mask=masks.causal)
    (first, second) = ([found.numpy() for found in pulled(call)] for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert_equal(one, other)


def pulled(call):
    leaves = [x.detach().requires_grad_() for x in (call.q, call.k, call.v)]
    return torch.autograd.grad(kernels.attention(*leaves, **call.arguments()), leaves, call.d_out)


def expected(call):
    arrays = [x.double().numpy() for x in (call.q, call.k, call.v, call.d_out)]
    with np.errstate(invalid="ignore", over="ignore"):
        return reference.attention_backward(*arrays, **call.arguments())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("name", ["q", "k", "v", "d_out"])
def test_what_is_hidden_may_hold_anything(name, value):
    """Whatever the second of two packed sequences holds, the first one's gradients stay the same bits."""
    call = drawn(n_q=37, n_k=37, mask=masks.causal & masks.segments([0] * 19 + [1] * 18))
    before = pulled(call)
    getattr(call, name)[:, :, 25] = value
    for one, other in zip(before, pulled(call), strict=True):
        assert_equal(other[:, :, :19], one[:, :, :19])


def test_padding_may_hold_anything():
    call = drawn(batch=2, mask=masks.lengths([41, 11]))
    before = pulled(call)
    for x in (call.k, call.v):
        x[1, :, 11::9] = torch.nan
    for one, other in zip(before, pulled(call), strict=True):
        assert_equal(other, one)
    assert_equal(pulled(call)[1][1, :, 11:], torch.zeros(2, 30, 8))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_is_seen_acts_where_the_reference_says(name, value):
    call = drawn(n_q=37, n_k=37, mask=masks.causal)
    arrays = [x.double().numpy() for x in (call.q, call.k, call.v, call.d_out)]
    bound = rounding.of_gradients(*arrays) * 2.0**-24 / rounding.EPS
    getattr(call, name)[0, 1, 30, 2] = value  # in a partial tile: of full ones the arithmetic is that of the device
    (dq, dk, dv), exact = pulled(call), expected(call)
    for actual, wanted in ((dq, exact.q), (dk, exact.k), (dv, exact.v)):
        finite = np.isfinite(wanted)
        assert_equal(actual.numpy()[finite], wanted[finite], atol=bound)
    for actual, wanted in ((dq, exact.q), (dk, exact.k)):  # the reference's d_v also hears of rows that hide the value
        assert_equal(actual.isfinite(), np.isfinite(wanted))
    if name == "q" and np.isnan(value):
        assert not dv[0, 1, :31].isfinite().any()


def test_a_gradient_that_is_not_finite_is_not_lost():
    call = drawn(n_q=37, n_k=37, mask=masks.causal)
    call.d_out[0, 1, 30, 2] = torch.inf
    dq, dk, dv = pulled(call)
    assert not dq[0, 1, 30].isfinite().any()
    assert not dk[0, 1, :31].isfinite().any()
    assert not dv[0, 1, :31, 2].isfinite().any()
    for x in (dk, dv):
        assert x[0, 0].isfinite().all()
        assert x[0, 1, 31:].isfinite().all()


@pytest.mark.parametrize("far", ["q", "k", "v", "d_out"])
def test_rows_that_32_bits_do_not_reach(far):
    """Rows 2²⁶ elements apart: the last of 48 lies beyond 2³¹, and no more pages are touched than there are rows."""
    call = drawn(heads=1, groups=1, n_q=48, n_k=48, width=16, value_width=16, mask=masks.causal)
    memory = torch.from_numpy(np.empty(3 * 2**30 + 4096, dtype=np.float16))
    call = Call(*(x.half() for x in (call.q, call.k, call.v, call.d_out)), mask=masks.causal)
    setattr(call, far, memory.as_strided((1, 1, 48, 16), (0, 0, 2**26, 1)).copy_(getattr(call, far)))
    check(call, kernels)
