"""`mha.nn.linear.recurrent` against the reference; every derivative against a recurrence that autograd runs through."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from compare import assert_equal
from linear_calls import OPTIONS, bounds, draw
from mha import reference
from mha.nn import linear_attention, linear_average, retention_log_decay

pytestmark = [  # torch's own forward mode uses what torch deprecates
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"),
]


def tensors(n, name, **sizes):
    rows, options = draw(n, **sizes)
    return [torch.from_numpy(x) for x in rows], {key: torch.from_numpy(x) for key, x in options[name].items()}


def recurrence(q, k, v, *, state=None, log_decay=None):
    """Return the definition in torch, with equal leading axes."""
    state = q.new_zeros((*q.shape[:-2], q.shape[-1], v.shape[-1])) if state is None else state
    rows = []
    for t in range(q.shape[-2]):
        if log_decay is not None:
            state = log_decay[..., min(t, log_decay.shape[-1] - 1), None, None].exp() * state
        state = state + k[..., t, :, None] * v[..., t, None, :]
        rows.append((q[..., t, :, None] * state).sum(-2))
    return torch.stack(rows, -2), state


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 13])
def test_equals_the_reference(n, name):
    rows, options = draw(n)
    expected, close = reference.linear_attention(*rows, **options[name]), bounds(*rows, **options[name])
    given, options = tensors(n, name)
    for chunk in (1, 4, 64):
        found = linear_attention(*given, **options, chunk=chunk)
        for one, two, atol in zip(found, expected, close, strict=True):
            assert one.shape == two.shape
            assert (np.abs(one.numpy() - two) <= atol).all()


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_of_the_recurrence(name):
    """All tensors of order 1, sums of at most 13 · 13 · 7 products: 1e-12 is 4500 ε."""
    given, options = tensors(13, name)
    leaves = [x.requires_grad_() for x in (*given, *options.values())]
    for form in (recurrence, lambda *x, **o: linear_attention(*x, **o, chunk=4)):
        output, state = form(*given, **options)
        weights = [torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view(x.shape) for x in (output, state)]
        total = (output * weights[0]).sum() + (state * weights[1]).sum()
        gradients = torch.autograd.grad(total, leaves)
        if form is recurrence:
            expected = gradients
    for one, two in zip(gradients, expected, strict=True):
        assert_equal(one, two, atol=1e-12 * float(two.abs().max().clamp(min=1)), rtol=1e-12)


@pytest.mark.parametrize("name", ["nothing", "both"])
def test_every_derivative(name):
    given, options = tensors(3, name, batch=(), num_heads=1, d=2, e=2)
    leaves = [x.requires_grad_() for x in (*given, *options.values())]

    def call(q, k, v, *others):
        return linear_attention(q, k, v, **dict(zip(options, others, strict=True)), chunk=2)

    assert gradcheck(call, leaves, check_forward_ad=True)
    assert gradgradcheck(call, leaves)


def test_length_zero_has_gradients():
    given, options = tensors(0, "both")
    leaves = [x.requires_grad_() for x in (*given, *options.values())]
    output, state = linear_attention(*given, **options)
    (output.sum() + state.sum()).backward()
    assert_equal(options["state"].grad, torch.ones(2, 3, 5, 7))
    assert [x.grad.shape for x in leaves] == [x.shape for x in leaves]


def test_a_state_continues_the_sequence():
    given, options = tensors(13, "both")
    expected = linear_attention(*given, **options)
    close = bounds(*(x.numpy() for x in given), **{key: x.numpy() for key, x in options.items()})
    state, rows = options["state"], []
    for t in range(13):
        token = [x[..., t : t + 1, :] for x in given]
        output, state = linear_attention(*token, state=state, log_decay=options["log_decay"][..., t : t + 1])
        rows.append(output)
    for one, two, atol in zip((torch.cat(rows, -2), state), expected, close, strict=True):
        assert ((one - two).abs().numpy() <= atol).all()


def test_strong_decay_is_finite():
    """e^(Gᵢ − Gⱼ) is taken where j is not later than i: of the others it would overflow."""
    given, _ = tensors(13, "nothing")
    log_decay = torch.full((3, 13), -900.0, dtype=torch.float64, requires_grad=True)
    output, state = linear_attention(*given, log_decay=log_decay, chunk=4)
    weights = (given[0] * given[1]).sum(-1, keepdim=True)
    assert_equal(output, weights * given[2], atol=64 * 2**-53 * 50)
    (output.sum() + state.sum()).backward()
    assert torch.isfinite(log_decay.grad).all()


@pytest.mark.parametrize("least", [-torch.inf, -1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_documents_in_one_row_are_documents_by_themselves(dtype, least):
    given, options = tensors(13, "decay")
    given = [x.to(dtype).requires_grad_() for x in given]
    log_decay = options["log_decay"].to(dtype).index_fill(-1, torch.tensor([4, 5, 9]), least).requires_grad_()
    found, _ = linear_attention(*given, log_decay=log_decay, chunk=8)
    parts = [slice(0, 4), slice(4, 5), slice(5, 9), slice(9, 13)]
    alone = [linear_attention(*(x[..., part, :] for x in given), log_decay=log_decay[..., part])[0] for part in parts]
    # a factor e^x errs by as much as x, a difference of sums of 8 logarithms, of which 3 are −104 or −746
    relative = torch.finfo(dtype).eps * 16 * 3 * (104 if dtype == torch.float32 else 746)
    results = ((x, *torch.autograd.grad(x.sum(), [*given, log_decay])) for x in (found, torch.cat(alone, -2)))
    for one, two in zip(*results, strict=True):
        assert_equal(one, two, atol=relative * two.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_are_at_least_float32(dtype):
    given, options = tensors(13, "both")
    given = [x.to(dtype) for x in given]
    options["state"] = options["state"].float()
    output, state = linear_attention(*given, **options, chunk=4)
    assert (output.dtype, state.dtype) == (dtype, torch.float32)
    exact = [x.double().numpy() for x in given], {key: x.double().numpy() for key, x in options.items()}
    expected, close = reference.linear_attention(*exact[0], **exact[1]), bounds(*exact[0], **exact[1], eps=2.0**-24)
    rounded = torch.finfo(dtype).eps / 2 * np.abs(expected[0])
    assert (np.abs(output.double().numpy() - expected[0]) <= close[0] + rounded).all()
    assert (np.abs(state.double().numpy() - expected[1]) <= close[1]).all()


def test_autocast_leaves_it_alone():
    given, options = tensors(5, "both")
    given = [x.float() for x in given]
    expected = linear_attention(*given, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = linear_attention(*given, **options)
    for one, two in zip(found, expected, strict=True):
        assert_equal(one, two)


def test_in_one_graph():
    given, options = tensors(13, "both")
    compiled = torch.compile(linear_attention, fullgraph=True, backend="aot_eager")
    for one, two in zip(compiled(*given, **options), linear_attention(*given, **options), strict=True):
        assert_equal(one, two)


def test_average_equals_the_reference():
    (q, k, v), options = draw(13)
    q, k, options = np.abs(q), np.abs(k), {"log_decay": options["decay"]["log_decay"]}
    k[..., :2, :] = 0
    expected = reference.linear_average(q, k, v, **options)
    found = linear_average(*map(torch.from_numpy, (q, k, v)), log_decay=torch.from_numpy(options["log_decay"]))
    assert_equal(found[0], expected[0], atol=4 * (13 + 5 + 8 + 13 * 13) * 2**-53 * np.abs(v).max())
    assert_equal(found[1], expected[1], atol=1e-13)
    asked = []
    linear_average(*map(torch.from_numpy, (q, k, v)), core=lambda *x, **o: (asked.append(o), linear_attention(*x))[1])
    assert asked == [{"state": None, "log_decay": None}]


def test_arrays_are_sent_to_the_reference():
    with pytest.raises(TypeError, match=r"k is a NumPy array: expected a torch tensor; mha\.reference takes arrays"):
        linear_attention(torch.zeros(1, 2, 3), np.zeros((1, 2, 3)), torch.zeros(1, 2, 3))


def test_decays_of_retention_equal_the_reference():
    assert_equal(retention_log_decay(40, dtype=torch.float64), reference.retention_log_decay(40), rtol=2.0**-50)
    assert_equal(retention_log_decay(3), reference.retention_log_decay(3), rtol=2.0**-24)
