"""The teaching kernels against `mha.reference`, against plain attention in the same precision, and among themselves."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import cost, masks, reference
from mha import kernels as kernels_of_the_package
from mha.kernels import teaching
from mha.kernels.teaching import dot_product
from mha.kernels.teaching.backward import backward
from mha.kernels.teaching.forward import BM, BN, forward

ULP = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def draw(n_q, n_k, d, dtype=torch.float32, heads=(3,)):
    make = torch.Generator().manual_seed(n_q * 1000 + n_k)
    sizes = (n_q, n_k, n_k, n_q)
    return [torch.randn(*heads, n, d, generator=make).to(dtype) for n in sizes]


def exact(q, k, v, d_out, mask, scale=None):
    """Return output, lse and gradients in float64."""
    q, k, v, d_out = (x.double().numpy() for x in (q, k, v, d_out))
    out, stats = reference.attention_stats(q, k, v, mask=mask, scale=scale)
    gradients = reference.attention_backward(q, k, v, d_out, mask=mask, scale=scale)
    return out, stats.lse, *gradients[:3]


def plain(q, k, v, d_out, mask):
    """Return output and gradients of attention in the tensors' own precision: products, softmax and sums."""
    see = torch.from_numpy(
        np.ones((q.shape[-2], k.shape[-2]), bool) if mask is None else mask.dense(q.shape[-2], k.shape[-2])
    )
    weights = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~see, -torch.inf).softmax(-1).nan_to_num()
    d_weights = d_out @ v.mT
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
    return weights @ v, d_scores @ k, d_scores.mT @ q, weights.mT @ d_out


def kernels(q, k, v, d_out, *, causal, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out, lse = forward(q, k, v, causal=causal, scale=scale)
    return out, lse, *backward(q, k, v, out, lse, d_out, causal=causal, scale=scale)


def assert_within_budget(found, expected, same_precision, dtype, label):
    """Twice the error of plain attention in this precision, and 4 units in the last place of the largest value."""
    error = np.abs(same_precision.double().numpy() - expected).max(initial=0)
    atol = 2 * error + 4 * ULP[dtype] * np.abs(expected).max(initial=0)
    assert_equal(found.double(), expected, atol=atol, label=label)


LENGTHS = [(1, 2), (BM, BN), (BM + 1, BN - 1), (7, 41), (41, 7), (67, 67)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), LENGTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_output_lse_and_gradients(n_q, n_k, causal, dtype):
    q, k, v, d_out = draw(n_q, n_k, 16, dtype)
    mask = masks.causal if causal else None
    expected, same = exact(q, k, v, d_out, mask), plain(q, k, v, d_out, mask)
    out, lse, *gradients = kernels(q, k, v, d_out, causal=causal)
    for name, found, wanted, low in zip(
        ("out", "dq", "dk", "dv"), (out, *gradients), (expected[0], *expected[2:]), same, strict=True
    ):
        assert_within_budget(found, wanted, low, dtype, name)
    finite = np.isfinite(expected[1])
    atol = 2.0**-23 * (16 + np.abs(expected[1][finite]).max(initial=1)) * 4
    assert_equal(lse.double(), expected[1], atol=atol, label="lse")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_one_key_leaves_the_scores_alone(dtype):
    """Its weight is 1, so d_weights − delta cancels, up to the roundings of both: d terms and a rounded output."""
    q, k, v, d_out = draw(3, 1, 16, dtype)
    out, _, dq, dk, dv = kernels(q, k, v, d_out, causal=False)
    assert_equal(out, v.expand(3, 3, 16))
    terms = (d_out.double().abs() @ v.double().abs().mT).max() * 2 * ULP[dtype] * 16**-0.5
    assert_equal(dq, torch.zeros_like(dq), atol=float(terms * k.abs().max()))
    assert_equal(dk, torch.zeros_like(dk), atol=float(3 * terms * q.abs().max()))
    assert_equal(dv.double(), d_out.double().sum(1, keepdim=True), atol=float(4 * ULP[dtype] * d_out.abs().max()))


@pytest.mark.parametrize("d", [16, 32, 64, 128])
def test_every_width(d):
    q, k, v, d_out = draw(5, 37, d)
    expected, same = exact(q, k, v, d_out, masks.causal), plain(q, k, v, d_out, masks.causal)
    out, _, *gradients = kernels(q, k, v, d_out, causal=True)
    for name, found, wanted, low in zip(
        ("out", "dq", "dk", "dv"), (out, *gradients), (expected[0], *expected[2:]), same, strict=True
    ):
        assert_within_budget(found, wanted, low, torch.float32, name)


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 3), (3, 0), (0, 0)])
def test_no_query_or_no_key(n_q, n_k):
    q, k, v, d_out = draw(n_q, n_k, 16)
    out, lse, *gradients = kernels(q, k, v, d_out, causal=False)
    assert_equal(lse, np.full((3, n_q), -np.inf))
    for found, like in zip((out, *gradients), (q, q, k, v), strict=True):
        assert_equal(found, np.zeros(like.shape))


def test_queries_before_the_first_key_are_exactly_zero():
    q, k, v, d_out = draw(41, 7, 16)
    out, lse, dq, dk, dv = kernels(q, k, v, d_out, causal=True)
    for x in (out, dq):
        assert_equal(x[:, :34], np.zeros((3, 34, 16)))
    assert_equal(lse[:, :34], np.full((3, 34), -np.inf))
    assert torch.isfinite(dk).all()
    assert torch.isfinite(dv).all()


def test_autograd_calls_both_passes():
    q, k, v, d_out = draw(33, 35, 16, heads=(2, 3))
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k, v))
    out = teaching.attention(q, k, v, mask=masks.causal, scale=0.3)
    gradients = torch.autograd.grad(out, (q, k, v), d_out.sum(-1, keepdim=True).expand_as(out))
    expected = exact(q.detach(), k.detach(), v.detach(), d_out.sum(-1, keepdim=True).expand_as(out), masks.causal, 0.3)
    for found, wanted in zip((out, *gradients), (expected[0], *expected[2:]), strict=True):
        assert_equal(found.double(), wanted, atol=2.0**-23 * 64 * np.abs(wanted).max())


def test_kernels_run_on_the_device_of_their_tensors(monkeypatch):
    """Backward, torch itself changes to the device of the gradient."""
    chosen = []

    @contextmanager
    def device_of(x):
        chosen.append(x.device)
        yield
        chosen.append("left")

    def watched(*given, **options):
        chosen.append("launched")
        return forward(*given, **options)

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    monkeypatch.setattr(dot_product, "forward", watched)
    teaching.attention(*draw(3, 5, 16)[:3])
    assert chosen == [torch.device("cpu"), "launched", "left"]


def test_transforms_are_refused():
    with pytest.raises(ValueError, match=r"serves no transform of torch\.func: mha\.nn does both"):
        torch.func.vmap(teaching.attention)(*draw(5, 7, 16, heads=(2, 3))[:3])


def test_two_runs_give_the_same_bits():
    q, k, v, d_out = draw(67, 67, 16)
    for one, other in zip(*(kernels(q, k, v, d_out, causal=True) for _ in range(2)), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": torch.zeros(3, 5, 24)}, ValueError, "width"),
        ({"v": torch.zeros(3, 7, 32)}, ValueError, r"v has shape \(3, 7, 32\): expected \(3, 7, 16\)"),
        ({"k": torch.zeros(1, 7, 16), "v": torch.zeros(1, 7, 16)}, ValueError, r"k has shape \(1, 7, 16\)"),
        ({"k": torch.zeros(3, 7, 16).half()}, TypeError, "k has dtype torch.float16 and q has dtype torch.float32"),
        ({"v": np.zeros((3, 7, 16))}, TypeError, "v is a NumPy array: expected a torch tensor"),
        ({"mask": masks.window(3, 0)}, ValueError, "mask is not masks.causal"),
    ],
)
def test_what_the_kernels_do_not_take_is_refused(change, error, message):
    arguments = {"q": torch.zeros(3, 5, 16), "k": torch.zeros(3, 7, 16), "v": torch.zeros(3, 7, 16)} | change
    with pytest.raises(error, match=message):
        teaching.attention(**arguments)


@pytest.mark.parametrize(
    ("dtype", "d", "error", "message"),
    [
        (torch.float32, 24, ValueError, "q has width 24: expected one of"),
        (torch.float64, 16, TypeError, "q has dtype torch.float64: kernels take float16"),
    ],
)
def test_widths_and_dtypes(dtype, d, error, message):
    x = torch.zeros(2, 5, d, dtype=dtype)
    with pytest.raises(error, match=message):
        teaching.attention(x, x, x)


@pytest.mark.parametrize(("n_q", "n_k"), [(67, 41), (BM, BN), (1, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_what_the_forward_kernel_moves_is_counted_and_predicted(n_q, n_k, dtype):
    q, k, v, _ = draw(n_q, n_k, 16, dtype)
    with teaching.counted_traffic() as traffic:
        teaching.attention(q, k, v)
    sizes = {"n_k": n_k, "itemsize": dtype.itemsize}
    memory = BM * 16 * (3 * dtype.itemsize + 4) + 4 * BM**2
    assert traffic.loaded + traffic.stored == cost.flash_traffic(n_q, 3, 16, **sizes, memory=memory)


def test_a_causal_kernel_does_not_load_what_it_may_not_see():
    """Of 3 × 3 tiles it needs 6: queries and output once, 6 tiles of keys and of values, one lse a row."""
    q, k, v, _ = draw(3 * BM, 3 * BN, 16, heads=(1,))
    with teaching.counted_traffic() as traffic:
        teaching.attention(q, k, v, mask=masks.causal)
    assert traffic.loaded == 4 * (3 * BM * 16 + 6 * 2 * BN * 16)
    assert traffic.stored == 4 * (3 * BM * 16 + 3 * BM)


@pytest.mark.parametrize("mask", [None, masks.causal], ids=["no mask", "causal"])
def test_the_full_kernels_say_the_same(mask):
    q, k, v, d_out = draw(35, 67, 32, heads=(2, 3))
    results = []
    for attention in (teaching.attention, kernels_of_the_package.attention):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        out = attention(*leaves, mask=mask)
        results.append((out.detach(), *torch.autograd.grad(out, leaves, d_out)))
    for ours, theirs in zip(*results, strict=True):
        assert_equal(ours, theirs, atol=2.0**-23 * 64 * float(theirs.abs().max()))
