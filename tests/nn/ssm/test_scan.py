"""`mha.nn.ssm.scan` against the reference, in every chunk size, precision and derivative."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from compare import assert_equal
from mha import nn, reference
from space_calls import draw_scan, part_of


def tensors(given):
    return [torch.from_numpy(x) for x in given]


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 13])
def test_equals_the_reference(n, chunk):
    given, D, state = draw_scan(n)
    expected = reference.selective_scan(*given, D=D, state=state)
    found = nn.selective_scan(*tensors(given), D=torch.from_numpy(D), state=torch.from_numpy(state), chunk=chunk)
    for one, two in zip(found, expected, strict=True):
        assert_equal(one, two, rtol=1e-12, atol=1e-12)


def test_a_state_continues_the_sequence():
    given, _, _ = draw_scan(13)
    expected = nn.selective_scan(*tensors(given))
    state, parts = None, []
    for part in (slice(0, 4), slice(4, 4), slice(4, 13)):
        y, state = nn.selective_scan(*tensors(part_of(given, part)), state=state, chunk=4)
        parts.append(y)
    assert_equal(torch.cat(parts, -1), expected[0], atol=1e-12)
    assert_equal(state, expected[1], atol=1e-12)


def leaves(n, **sizes):
    given, D, state = draw_scan(n, **sizes)
    return [torch.from_numpy(x).requires_grad_() for x in (*given, D, state)]


def scan(*x, chunk=2):
    return nn.selective_scan(*x[:5], D=x[5], state=x[6], chunk=chunk)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck], ids=lambda check: check.__name__)
def test_gradients(check):
    assert check(scan, leaves(3, channels=2, width=2, batch=(1,)))


def test_gradients_are_those_of_a_plain_loop():
    given = leaves(11)
    scan(*given, chunk=4)[0].square().sum().backward()
    again = [x.detach().clone().requires_grad_() for x in given]
    x, dt, A, B, C, D, state = again
    total = 0.0
    for t in range(11):
        state = (dt[..., t, None] * A).exp() * state + (dt * x)[..., t, None] * B[:, None, t]
        total = total + ((state * C[:, None, t]).sum(-1) + D * x[..., t]).square().sum()
    total.backward()
    for one, two in zip(given, again, strict=True):
        assert_equal(one.grad, two.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_is_near_and_the_state_wide(dtype):
    given, _, _ = draw_scan(129)
    rounded = [x.to(dtype) for x in tensors(given)]
    exact, _ = nn.selective_scan(*(x.double() for x in rounded))
    y, state = nn.selective_scan(*rounded)
    assert (y.dtype, state.dtype) == (dtype, torch.float32)
    assert_equal(y, exact, atol=4 * torch.finfo(dtype).eps * float(exact.abs().max()))


def test_long_decays_neither_overflow_nor_spoil_the_gradient():
    given, _, _ = draw_scan(200)
    x, dt, A, B, C = [one.float() for one in tensors(given)]
    dt = (100 * dt).requires_grad_()
    y, last = nn.selective_scan(x, dt, A, B, C)
    (y.sum() + last.sum()).backward()
    assert all(bool(one.isfinite().all()) for one in (y, last, dt.grad))


def test_half_of_the_arguments_may_lack_the_batch():
    (x, dt, A, B, C), _, _ = draw_scan(5)
    expected, _ = reference.selective_scan(x, dt, A, np.broadcast_to(B[:1], B.shape), C)
    found, _ = nn.selective_scan(*tensors((x, dt, A, B[0], C)))
    assert_equal(found, expected, atol=1e-12)


def test_compiles_to_one_graph():
    given = leaves(5)
    expected = scan(*given)[0]
    found = torch.compile(scan, fullgraph=True, backend="eager")(*given)[0]
    assert_equal(found, expected, atol=1e-12)


def test_misfits_are_named():
    (x, *others), _, _ = draw_scan(3)
    with pytest.raises(TypeError, match=r"x is a NumPy array: expected a torch tensor; mha\.reference takes arrays"):
        nn.selective_scan(x, *tensors(others))
    with pytest.raises(ValueError, match=r"dt has shape \(2, 3, 2\): expected \(…, 3, 3\)"):
        nn.selective_scan(torch.from_numpy(x), torch.from_numpy(others[0][..., :2]), *tensors(others[1:]))
    with pytest.raises(ValueError, match="chunk is 0: expected at least 1"):
        nn.selective_scan(*tensors((x, *others)), chunk=0)
