"""`mha.nn.linear.gated` against the reference; every derivative against a recurrence that autograd runs through."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from compare import assert_equal
from linear_calls import draw_gated
from mha import reference
from mha.nn import gated_linear_attention, linear_attention

pytestmark = [  # torch's own forward mode uses what torch deprecates
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"),
]
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def tensors(n, **sizes):
    rows, state = draw_gated(n, **sizes)
    return [torch.from_numpy(x) for x in (*rows, state)]


def recurrence(q, k, v, log_gate, state):
    """Return the definition in torch, with equal leading axes."""
    rows = []
    for t in range(q.shape[-2]):
        state = log_gate[..., t, :, None].exp() * state + k[..., t, :, None] * v[..., t, None, :]
        rows.append((q[..., t, :, None] * state).sum(-2))
    return torch.stack(rows, -2), state


def assert_same(found, expected, close=CLOSE):
    for name, one, two in zip(("output", "state"), found, expected, strict=True):
        assert_equal(one, two, **close, label=name)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9, 37])
def test_equals_the_reference(n):
    rows, state = draw_gated(n)
    for first in (None, state):
        expected = reference.gated_linear_attention(*rows, state=first)
        for chunk in (1, 4, 19, 64):  # 19 and 37 are halved unevenly
            options = {} if first is None else {"state": torch.from_numpy(first)}
            assert_same(gated_linear_attention(*map(torch.from_numpy, rows), **options, chunk=chunk), expected)


def gradients(form, leaves):
    output, state = form(*leaves)
    weights = [torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view(x.shape) for x in (output, state)]
    return torch.autograd.grad((output * weights[0]).sum() + (state * weights[1]).sum(), leaves)


@pytest.mark.parametrize("chunk", [4, 64])
def test_gradients_of_the_recurrence(chunk):
    leaves = [x.requires_grad_() for x in tensors(23)]
    found = gradients(lambda *x: gated_linear_attention(*x[:4], state=x[4], chunk=chunk), leaves)
    for one, two in zip(found, gradients(recurrence, leaves), strict=True):
        assert_equal(one, two, atol=1e-12 * float(two.abs().max().clamp(min=1)), rtol=1e-12)


def test_every_derivative():
    leaves = [x.requires_grad_() for x in tensors(3, batch=(), num_heads=1, d=2, e=2)]

    def call(*x):
        return gated_linear_attention(*x[:4], state=x[4], chunk=2)

    assert gradcheck(call, leaves, check_forward_ad=True)
    assert gradgradcheck(call, leaves)


def test_length_zero_has_gradients():
    *rows, state = (x.requires_grad_() for x in tensors(0))
    output, last = gated_linear_attention(*rows, state=state)
    (output.sum() + last.sum()).backward()
    assert_equal(state.grad, torch.ones(2, 3, 5, 7))


def test_a_state_continues_the_sequence():
    *rows, state = tensors(13)
    expected, parts = gated_linear_attention(*rows, state=state), []
    for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 13)):
        output, state = gated_linear_attention(*(x[..., part, :] for x in rows), state=state)
        parts.append(output)
    assert_same((torch.cat(parts, -2), state), expected)


@pytest.mark.parametrize("least", [-900.0, -1e30, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_strong_gates_are_finite_and_forget(dtype, least):
    """The quotient of cumulated gates would be 0 / 0; here every exponent is a difference ≤ 0, also halved."""
    *rows, _ = (x.to(dtype) for x in tensors(37))
    rows[3] = rows[3].index_fill(-2, torch.tensor([5, 20, 21]), least).requires_grad_()
    output, last = gated_linear_attention(*rows)
    parts = slice(0, 5), slice(5, 20), slice(20, 21), slice(21, 37)
    alone = [gated_linear_attention(*(x[..., part, :] for x in rows)) for part in parts]
    # a factor e^x errs by as much as x, a difference of sums of logarithms, of which 3 are −104 or −746
    relative = torch.finfo(dtype).eps * 16 * 3 * (104 if dtype == torch.float32 else 746)
    for one, two in ((output, torch.cat([x for x, _ in alone], -2)), (last, alone[-1][1])):
        assert_equal(one, two, atol=relative * two.abs().max().item())
    (output.sum() + last.sum()).backward()
    assert torch.isfinite(rows[3].grad).all()


def test_one_gate_for_all_channels_is_a_decay():
    q, k, v, log_gate, state = tensors(37)
    same = log_gate[..., :1]
    expected = linear_attention(q, k, v, state=state, log_decay=same[..., 0])
    assert_same(gated_linear_attention(q, k, v, same, state=state), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_sums_are_at_least_float32(dtype):
    q, k, v, log_gate, state = tensors(13)
    q, k, v = (x.to(dtype) for x in (q, k, v))
    output, last = gated_linear_attention(q, k, v, log_gate, state=state.float(), chunk=4)
    assert (output.dtype, last.dtype) == (dtype, torch.float32)
    exact = reference.gated_linear_attention(*(x.double().numpy() for x in (q, k, v, log_gate)), state=state.numpy())
    assert_equal(output.double(), exact[0], atol=3e-5, rtol=torch.finfo(dtype).eps / 2)
    assert_equal(last.double(), exact[1], atol=3e-5)


def test_autocast_leaves_it_alone():
    *rows, state = (x.float() for x in tensors(5))
    expected = gated_linear_attention(*rows, state=state)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gated_linear_attention(*rows, state=state)
    assert_same(found, expected, {})


def test_in_one_graph():
    *rows, state = tensors(9)  # halved once
    compiled = torch.compile(gated_linear_attention, fullgraph=True, backend="eager")
    assert_same(compiled(*rows, state=state), gated_linear_attention(*rows, state=state))


def test_arrays_are_sent_to_the_reference():
    rows = [torch.zeros(1, 2, 3)] * 3
    with pytest.raises(TypeError, match=r"log_gate is a NumPy array: expected a torch tensor; mha\.reference takes"):
        gated_linear_attention(*rows, np.zeros((1, 2, 3)))
