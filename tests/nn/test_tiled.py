"""Sparse masks, tile by tile: the numbers and the gradients of the reference, whatever the mask, heads and widths.

Tiles of 5 × 7 here, so that short sequences have many, ragged ones too.
"""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import attention, attention_stats, dot_product, tile_plan

B, N_Q, N_K = 2, 23, 31
MASKS = {
    "window": masks.window(4, 1),
    "window and global": (masks.window(3, 0) | masks.global_tokens([2, 17])) & masks.causal,
    "lengths": masks.causal & masks.lengths([31, 11]) & masks.window(9, 0),
    "no key at all": masks.window(2, 2) & masks.lengths([0, 29]),
    "segments": masks.segments(np.repeat([0, 1, 2], [9, 8, 6]), np.repeat([0, 1, 2], [12, 10, 9])),
    "one per head": masks.per_head([masks.window(w, 0) for w in (2, 3, 5, 0, 9, 4)]),
    "one per head and lengths": masks.per_head([masks.window(w, 0) for w in (2, 3, 5, 0, 9, 4)])
    & masks.lengths([7, 31]),
    "tables of torch": masks.lengths(torch.tensor([31, 11])) & masks.causal,
}
HEADS = [(6, 6), (6, 2), (6, 1)]
by_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
by_heads = pytest.mark.parametrize("heads", HEADS, ids=str)


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Make tiles small and always worth while; return the plans that are made."""
    found = []

    def find_plan(*arguments):
        found.append(tile_plan.find_plan(*arguments))
        return found[-1]

    monkeypatch.setattr(tile_plan, "SIZE", (5, 7))
    monkeypatch.setattr(tile_plan, "FEWEST_PAIRS", 0)
    monkeypatch.setattr(tile_plan, "DENSEST", 1.0)
    monkeypatch.setattr(dot_product, "find_plan", find_plan)
    return found


def draw(heads=(6, 6), batch=(B,), n_q=N_Q, n_k=N_K, width=3, value_width=3, dtype=torch.float64):
    make = torch.Generator().manual_seed(0)
    shapes = (heads[0], n_q, width), (heads[1], n_k, width), (heads[1], n_k, value_width)
    return [torch.randn(*batch, *shape, generator=make, dtype=dtype).requires_grad_() for shape in shapes]


def in_numpy(*tensors):
    return [x.detach().double().numpy() for x in tensors]


def host(mask):
    return mask.on_tables(np.asarray)


@by_heads
@by_mask
def test_output_and_gradients_are_the_references(mask, heads, calls):
    for widths in (3, 3), (5, 2), (2, 5):
        q, k, v = draw(heads, width=widths[0], value_width=widths[1])
        d_out = torch.randn(B, heads[0], N_Q, widths[1], generator=torch.Generator().manual_seed(1), dtype=q.dtype)
        out = attention(q, k, v, mask=mask)
        assert calls.pop(), "the tiles were not used"
        assert_equal(out, reference.attention(*in_numpy(q, k, v), mask=host(mask)), atol=1e-13)
        assert_equal(attention(*(x.detach() for x in (q, k, v)), mask=mask), out, label="without gradients")
        found = torch.autograd.grad(out, (q, k, v), d_out)
        expected = reference.attention_backward(*in_numpy(q, k, v, d_out), mask=host(mask))
        for name, gradient in zip("qkv", found, strict=True):
            assert_equal(gradient, getattr(expected, name), atol=1e-12, label=name)


@pytest.mark.parametrize("options", [{"q_start": 3}, {"q_start": torch.tensor([3, -4])}, {"scale": -0.3}], ids=str)
@by_heads
def test_options(options, heads, calls):
    q, k, v = draw(heads)
    mask = masks.causal & masks.window(6, 0)
    out = attention(q, k, v, mask=mask, **options)
    assert calls[-1]
    in_options = {name: np.asarray(x) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    assert_equal(out, reference.attention(*in_numpy(q, k, v), mask=mask, **in_options), atol=1e-13)


@pytest.mark.parametrize("batch", [(), (2, 3), (2, 1, 3)], ids=str)
@by_heads
def test_any_leading_axes(batch, heads, calls):
    q, k, v = draw(heads, batch)
    out = attention(q, k, v, mask=masks.window(4, 1))
    assert calls[-1]
    assert_equal(out, reference.attention(*in_numpy(q, k, v), mask=masks.window(4, 1)), atol=1e-13)
    shared = attention(q, k[:1], v[:1], mask=masks.window(4, 1)) if batch else out
    assert shared.shape == out.shape


@pytest.mark.parametrize("name", ["q", "k", "v", "d_out"])
def test_a_view_equals_its_copy(name):
    """The operator reads other memory where the entries of a row do not lie side by side."""
    given = dict(zip(("q", "k", "v", "d_out"), [*draw(), torch.randn(B, 6, N_Q, 3).double()], strict=True))
    given = {key: x.detach() for key, x in given.items()}
    answers = []
    for view in (lambda x: x), (lambda x: torch.stack([x, x + 1], dim=-1).flatten(-2)[..., ::2]):
        leaves = [(view(given[key]) if key == name else given[key]).requires_grad_() for key in "qkv"]
        out = attention(*leaves, mask=masks.window(4, 1))
        d_out = view(given["d_out"]) if name == "d_out" else given["d_out"]
        answers.append((out, *torch.autograd.grad(out, leaves, d_out)))
    for one, other in zip(*answers, strict=True):
        assert_equal(one, other, atol=1e-14)


@pytest.mark.parametrize("n_q", [1, 5, 31])
@pytest.mark.parametrize("n_k", [1, 7, 31])
def test_lengths_around_a_tile(n_q, n_k):
    q, k, v = draw(n_q=n_q, n_k=n_k)
    for mask in masks.window(2, 0), masks.window(0, 3) | masks.prefix(2):
        assert_equal(attention(q, k, v, mask=mask), reference.attention(*in_numpy(q, k, v), mask=mask), atol=1e-13)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize(("heads", "mask"), [((2, 1), masks.window(1, 0)), ((1, 1), masks.lengths([0, 3]))], ids=str)
def test_every_derivative(heads, mask, calls, monkeypatch):
    monkeypatch.setattr(tile_plan, "SIZE", (1, 2))
    tensors = draw(heads, (mask.sizes()[0],), n_q=2, n_k=3, width=2, value_width=2)

    def call(q, k, v):
        return attention(q, k, v, mask=mask)

    assert torch.autograd.gradcheck(call, tensors, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, tensors, check_fwd_over_rev=True)
    assert calls[0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.7e308])
@by_heads
def test_what_nobody_sees_may_hold_anything(bad, heads, calls):
    mask = masks.lengths([N_K, 11]) & masks.causal & masks.window(9, 0)
    clean, spoiled = draw(heads), [x.detach().clone() for x in draw(heads)]
    for x in spoiled[1:]:
        x[1, :, 11:] = bad
        x[1, :, 12:13] = -bad  # of two such numbers the sum is 0
        x[1, :, 13:] = 0.0
    answers = []
    for tensors in clean, [x.requires_grad_() for x in spoiled]:
        out = attention(*tensors, mask=mask)
        assert calls.pop(), "the tiles were not used"
        answers.append((out, *torch.autograd.grad(out.square().sum(), tensors)))
    for one, other in zip(*answers, strict=True):
        assert_equal(one, other, atol=0)


def test_a_query_that_sees_nothing_may_hold_anything():
    q, k, v = draw()
    q.data[:, :, 0] = math.nan
    mask = masks.window(2, 0) & ~masks.prefix(9)
    out = attention(q, k, v, mask=mask)
    assert_equal(out[:, :, 0], torch.zeros_like(out[:, :, 0]))
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(bool(x.isfinite().all()) for x in gradients)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("name", "bad"), [("k", math.nan), ("k", -math.inf), ("v", math.inf), ("q", math.nan)])
def test_what_is_seen_acts_as_in_the_reference(name, bad):
    tensors = dict(zip("qkv", (x.detach() for x in draw()), strict=True))
    tensors[name][0, 1, 13, 1] = bad
    mask = masks.window(4, 1)
    expected = reference.attention(*in_numpy(*tensors.values()), mask=mask)
    assert_equal(attention(**tensors, mask=mask), expected, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision(dtype, calls):
    """Rounded are the inputs' products once and the output once, each to one part in 1 / eps of at most max|v|."""
    q, k, v = draw((6, 2), dtype=dtype)
    mask = masks.window(4, 1) | masks.global_tokens([3])
    out = attention(q, k, v, mask=mask)
    assert calls[-1]
    bound = 2 * torch.finfo(dtype).eps * float(v.detach().abs().max())
    assert_equal(out.double(), reference.attention(*in_numpy(q, k, v), mask=mask), atol=bound)
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    expected = reference.attention_backward(*in_numpy(q, k, v, torch.ones_like(out)), mask=mask)
    for key, gradient in zip("qkv", gradients, strict=True):
        exact = getattr(expected, key)
        assert gradient.dtype == dtype
        assert_equal(gradient.double(), exact, atol=8 * torch.finfo(dtype).eps * np.abs(exact).max(), label=key)


def test_asking_for_more_changes_nothing(calls):
    q, k, v = (x.detach() for x in draw())
    mask = masks.window(4, 1)
    assert_equal(attention_stats(q, k, v, mask=mask)[0], attention(q, k, v, mask=mask), label="the same bits")
    assert calls[-1]


def test_a_dense_array_and_a_dense_pattern_stay_whole(calls, monkeypatch):
    monkeypatch.setattr(tile_plan, "DENSEST", 0.5)
    q, k, v = draw()
    attention(q, k, v, mask=masks.window(4, 1).dense(N_Q, N_K))
    attention(q, k, v, mask=masks.window(20, 20))
    assert calls == [None, None]


def test_a_long_window_needs_no_square_memory():
    """8191² booleans are 67 MB and as float32 268 MB; the output is 4 MB."""
    code = """
import re, torch
from mha import masks
from mha.nn import attention
torch.set_num_threads(1)
def peak():  # ru_maxrss begins with what the parent held
    return int(re.search("VmHWM: *(.*) kB", open("/proc/self/status").read().replace("\\t", " "))[1])
def run(n):
    q = torch.randn(1, 2, n, 64, requires_grad=True)
    attention(q, q, q, mask=masks.window(99, 0)).sum().backward()
run(2048)
before = peak()
run(8191)
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60_000, f"{done.stdout.strip()} kB"
