"""The usual call goes a short way: the same numbers as the general way, and the same guarantees."""

import math

import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import attention, shortcut

N, WIDTH = 67, 5
SEE = torch.rand(N, N, generator=torch.Generator().manual_seed(1)) > 0.3
SEE[3] = False
MASKS = {
    "none": None,
    "causal": masks.causal,
    "two axes": SEE,
    "four axes": SEE.roll(1, 0).expand(2, 1, N, N),
    "a mask": masks.dense(SEE),
}
by_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def draw(n=N, dtype=torch.float64):
    make = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, n, WIDTH, generator=make, dtype=dtype).requires_grad_() for _ in "qkv"]


def in_numpy(tensors):
    return [x.detach().double().numpy() for x in tensors]


def of_numpy(mask):
    return mask.numpy() if isinstance(mask, torch.Tensor) else None if mask is None else mask.dense(N, N).__array__()


@by_mask
def test_numbers_and_gradients_are_the_references(mask):
    tensors = draw()
    out = shortcut.usual_call(*tensors, mask)
    assert_equal(attention(*tensors, mask=mask), out, label="this is the way it goes")
    assert_equal(out, reference.attention(*in_numpy(tensors), mask=of_numpy(mask)), atol=1e-13)
    assert_equal(attention(*(x.detach() for x in tensors), mask=mask), out, atol=1e-15, label="without gradients")
    found = torch.autograd.grad(out.sum(), tensors)
    expected = reference.attention_backward(*in_numpy([*tensors, torch.ones_like(out)]), mask=of_numpy(mask))
    for name, gradient in zip("qkv", found, strict=True):
        assert_equal(gradient, getattr(expected, name), atol=1e-12, label=name)


@pytest.mark.parametrize(
    "change",
    [
        lambda q, k, v: (q, k[:, :1], v[:, :1]),
        lambda q, k, v: (q, k, v[..., :3]),
        lambda q, k, v: (q[..., :9, :], k, v),
        lambda q, k, v: (q, k.float(), v),
        lambda q, k, v: (q[0], k[0], v[0]),
        lambda q, k, v: (q[:0], k[:0], v[:0]),
        lambda q, k, v: (q.detach().numpy(), k, v),
        lambda q, k, v: (q, k, v.to_sparse()),
    ],
)
def test_what_is_unusual_goes_the_general_way(change):
    assert shortcut.usual_call(*change(*draw()), masks.causal) is None


@pytest.mark.parametrize(("n_q", "num_kv_heads"), [(1, 1), (9, 3), (9, 1)])
def test_few_queries_read_many_keys(n_q, num_kv_heads):
    q, k, v = draw()
    tensors = [x.detach().requires_grad_() for x in (q[:, :, :n_q], k[:, :num_kv_heads], v[:, :num_kv_heads])]
    out = shortcut.usual_call(*tensors, None)
    assert_equal(out, reference.attention(*in_numpy(tensors)), atol=1e-13)
    found = torch.autograd.grad(out.sum(), tensors)
    expected = reference.attention_backward(*in_numpy([*tensors, torch.ones_like(out)]))
    for name, gradient in zip("qkv", found, strict=True):
        assert_equal(gradient, getattr(expected, name), atol=1e-12, label=name)


def test_a_bad_mask_is_refused_by_name():
    for mask in torch.ones(N, N), torch.ones(2, N, dtype=torch.bool), torch.ones(3, 1, N, N, dtype=torch.bool):
        with pytest.raises((TypeError, ValueError), match=r"^mask has"):
            attention(*draw(), mask=mask)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("mask", [None, masks.causal], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, N])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_row_of_nan_is_no_empty_row(mask, n, dtype):
    """With fewer keys than a vector register holds, aten's CPU operator gives 0 for a row whose scores are all NaN."""
    for name in "qk":
        tensors = dict(zip("qkv", (x.detach() for x in draw(n, dtype)), strict=True))
        tensors[name][0, 0, n // 2 :, 0] = math.nan
        if name == "k":
            tensors[name][0, 0, :, 0] = math.nan
        expected = reference.attention(*in_numpy(tensors.values()), mask=mask)
        assert_equal(attention(**tensors, mask=mask).isnan(), torch.from_numpy(expected).isnan(), label=name)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@by_mask
@pytest.mark.parametrize(("name", "bad"), [("k", math.nan), ("k", -math.inf), ("v", math.inf), ("v", math.nan)])
def test_a_bad_key_acts_on_the_rows_that_see_it(mask, name, bad):
    tensors = dict(zip("qkv", (x.detach() for x in draw()), strict=True))
    tensors["q"] = tensors["q"].abs()
    tensors[name][1, 2, 40, 3] = bad
    expected = reference.attention(*in_numpy(tensors.values()), mask=of_numpy(mask))
    assert_equal(attention(**tensors, mask=mask), expected, atol=1e-13)


def test_a_key_that_weighs_nothing_leaves_gradients_finite():
    """A score of −inf is a weight of 0; the backward pass must not multiply it by the key."""
    q, k, v = draw()
    q.data.abs_()
    k.data[1, 2, 40, 3] = -math.inf
    found = torch.autograd.grad(attention(q, k, v, mask=masks.causal).sum(), (q, k, v))
    assert all(bool(x.isfinite().all()) for x in found)
    k.data[1, 2, 40] = -1e3 * torch.ones(WIDTH)
    close = torch.autograd.grad(attention(q, k, v, mask=masks.causal).sum(), (q, k, v))
    assert_equal(found[0], close[0], atol=1e-9)


def test_a_mask_may_be_overwritten_after_the_forward_pass():
    tensors, see = draw(), SEE.clone()
    expected = torch.autograd.grad(attention(*tensors, mask=SEE).sum(), tensors)
    out = attention(*tensors, mask=see)
    see.fill_(True)
    for one, other in zip(torch.autograd.grad(out.sum(), tensors), expected, strict=True):
        assert_equal(one, other)


def test_a_sum_beyond_float16_is_still_finite():
    tensors = [torch.full((1, 3, N, WIDTH), 100.0).half() for _ in "qkv"]
    assert shortcut.usual_call(*tensors, SEE) is not None
