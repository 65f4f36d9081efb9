"""`mha.nn.linear.delta` against the reference; every derivative against a recurrence that autograd runs through."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

from compare import assert_equal
from linear_calls import OPTIONS, draw_delta
from mha import reference
from mha.nn import delta_rule

pytestmark = [  # torch's own forward mode uses what torch deprecates
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"),
]
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def tensors(n, name, **sizes):
    rows, options = draw_delta(n, **sizes)
    return [torch.from_numpy(x) for x in rows], {key: torch.from_numpy(x) for key, x in options[name].items()}


def recurrence(q, k, v, beta, *, state=None, log_decay=None):
    """Return the definition in torch, with equal leading axes."""
    state = q.new_zeros((*q.shape[:-2], q.shape[-1], v.shape[-1])) if state is None else state
    rows = []
    for t in range(q.shape[-2]):
        if log_decay is not None:
            state = log_decay[..., min(t, log_decay.shape[-1] - 1), None, None].exp() * state
        found = (k[..., t, :, None] * state).sum(-2)
        state = state + k[..., t, :, None] * (beta[..., t, None] * (v[..., t, :] - found))[..., None, :]
        rows.append((q[..., t, :, None] * state).sum(-2))
    return torch.stack(rows, -2), state


def assert_same(found, expected, close=CLOSE):
    for name, one, two in zip(("output", "state"), found, expected, strict=True):
        assert_equal(one, two, **close, label=name)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 37])
def test_equals_the_reference(n, name):
    rows, options = draw_delta(n)
    expected = reference.delta_rule(*rows, **options[name])
    given, options = tensors(n, name)
    for chunk in (1, 4, 64):
        assert_same(delta_rule(*given, **options, chunk=chunk), expected)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_of_the_recurrence(name):
    given, options = tensors(13, name)
    leaves = [x.requires_grad_() for x in (*given, *options.values())]
    results = []
    for form in (recurrence, lambda *x, **o: delta_rule(*x, **o, chunk=4)):
        output, state = form(*given, **options)
        weights = [torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view(x.shape) for x in (output, state)]
        results.append(torch.autograd.grad((output * weights[0]).sum() + (state * weights[1]).sum(), leaves))
    for two, one in zip(*results, strict=True):
        assert_equal(one, two, atol=1e-12 * float(two.abs().max().clamp(min=1)), rtol=1e-12)


def test_every_derivative():
    given, options = tensors(3, "both", batch=(), num_heads=1, d=2, e=2)
    leaves = [x.requires_grad_() for x in (*given, *options.values())]

    def call(q, k, v, beta, *others):
        return delta_rule(q, k, v, beta, **dict(zip(options, others, strict=True)), chunk=2)

    assert gradcheck(call, leaves, check_forward_ad=True)
    assert gradgradcheck(call, leaves)


def test_length_zero_has_gradients():
    given, options = tensors(0, "both")
    state = options["state"].requires_grad_()
    output, last = delta_rule(*given, **options)
    (output.sum() + last.sum()).backward()
    assert_equal(state.grad, torch.ones(2, 3, 5, 7))


def test_equals_qwen3_next():
    """Float32 of another library, whose queries are scaled by d^−½ and whose axes are (batch, length, heads, width)."""
    (q, k, v, beta), options = tensors(37, "both")
    state, log_decay = options.values()
    theirs = [x.transpose(1, 2).float() for x in (q, k, v, log_decay, beta)]
    out, last = torch_chunk_gated_delta_rule(*theirs, initial_state=state.float(), output_final_state=True)
    expected = out.transpose(1, 2) * 5**0.5, last
    assert_same(delta_rule(q, k, v, beta, **options), expected, {"atol": 5e-6})
    wrong, _ = delta_rule(q, k, v, torch.ones_like(beta), **options)
    assert (wrong - expected[0]).abs().max() > 0.1


def test_a_state_continues_the_sequence():
    (*rows, beta), options = tensors(13, "both")
    state, log_decay = options.values()
    expected, parts = delta_rule(*rows, beta, **options), []
    for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 13)):
        now = {"state": state, "log_decay": log_decay[..., part]}
        output, state = delta_rule(*(x[..., part, :] for x in rows), beta[..., part], **now)
        parts.append(output)
    assert_same((torch.cat(parts, -2), state), expected)


@pytest.mark.parametrize("least", [-900.0, -torch.inf])
def test_documents_in_one_row_are_documents_by_themselves(least):
    (*rows, beta), options = tensors(13, "decay")
    log_decay = options["log_decay"].index_fill(-1, torch.tensor([5]), least).requires_grad_()
    output, last = delta_rule(*rows, beta, log_decay=log_decay)
    alone = [
        delta_rule(*(x[..., part, :] for x in rows), beta[..., part], log_decay=log_decay[..., part])
        for part in (slice(0, 5), slice(5, 13))
    ]
    assert_same((output, last), (torch.cat([x for x, _ in alone], -2), alone[-1][1]))
    (output.sum() + last.sum()).backward()
    assert torch.isfinite(log_decay.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_sums_are_at_least_float32(dtype):
    (q, k, v, beta), options = tensors(13, "both")
    q, k, v = (x.to(dtype) for x in (q, k, v))
    output, last = delta_rule(q, k, v, beta, **options, chunk=4)
    assert (output.dtype, last.dtype) == (dtype, torch.float32)
    exact = [x.double().numpy() for x in (q, k, v, beta)], {key: x.numpy() for key, x in options.items()}
    expected = reference.delta_rule(*exact[0], **exact[1])
    assert_equal(output.double(), expected[0], atol=3e-5, rtol=torch.finfo(dtype).eps / 2)
    assert_equal(last.double(), expected[1], atol=3e-5)


def test_autocast_leaves_it_alone():
    given, options = tensors(5, "both")
    given, options = [x.float() for x in given], {key: x.float() for key, x in options.items()}
    expected = delta_rule(*given, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(delta_rule(*given, **options), expected, {})


def test_in_one_graph():
    given, options = tensors(13, "both")
    compiled = torch.compile(delta_rule, fullgraph=True, backend="eager")
    assert_same(compiled(*given, **options), delta_rule(*given, **options))


def test_arrays_are_sent_to_the_reference():
    rows = [torch.zeros(1, 2, 3)] * 3
    with pytest.raises(TypeError, match=r"beta is a NumPy array: expected a torch tensor; mha\.reference takes arrays"):
        delta_rule(*rows, np.zeros((1, 2)))
