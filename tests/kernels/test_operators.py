"""The operators as torch sees them: checked by opcheck, traced in one piece, differentiated as eager mode does."""

from contextlib import contextmanager
from itertools import cycle

import pytest
import torch

from compare import assert_equal
from mha import kernels, masks, nn
from mha.dropout import Dropout
from mha.kernels.dot_product import operators
from mha.kernels.dot_product.operands import taken_apart
from mha.kernels.dot_product.operators import kernel_backward, kernel_forward

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # of torch itself
N_Q, N_K = 5, 7
CLOSE = {"rtol": 0.0, "atol": 2.0**-24 * 1024}  # some dozen roundings of numbers up to 16, and their sums over 7 keys


@pytest.fixture(autouse=True)
def own_graphs():
    torch._dynamo.reset()


def draw(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def leaves(n_q=N_Q, n_k=N_K, dtype=torch.float32):
    tensors = draw(2, 2, n_q, 8, dtype=dtype), draw(2, 1, n_k, 8, dtype=dtype), draw(2, 1, n_k, 3, dtype=dtype)
    return [x.requires_grad_() for x in tensors]


def gradients(function, inputs, *d_outputs):
    return torch.autograd.grad(function(*inputs), inputs, d_outputs)


OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal},
    "lengths": {"mask": masks.causal & masks.lengths(torch.tensor([4, 7]))},
    "of each head": {"mask": masks.per_head([masks.causal, masks.window(2, 1)]), "sinks": draw(2)},
    "dropout": {"softcap": 2.0, "scale": 0.4, "dropout": Dropout(0.3, torch.tensor(5))},
    "alibi": {"mask": masks.causal, "bias": kernels.alibi(draw(2).exp()), "q_start": torch.tensor([1, 4])},
    "bias": {"bias": draw(2, 1, N_K)},
}


def test_kernels_run_on_the_device_of_their_tensors(monkeypatch):
    chosen, ran = [], []

    @contextmanager
    def device_of(x):
        chosen.append(x.device)
        yield
        chosen.pop()

    def watched(name, launch):
        return lambda *given, **options: ran.append((name, list(chosen))) or launch(*given, **options)

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    for name in ("forward", "backward", "bias_gradient"):
        monkeypatch.setattr(operators, name, watched(name, getattr(operators, name)))
    bias = draw(2, 1, N_K).requires_grad_()
    kernels.attention(*leaves(), bias=bias).sum().backward()
    assert ran == [(name, [torch.device("cpu")]) for name in ("forward", "backward", "bias_gradient")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lengths", "of each head", "dropout"])
def test_opcheck_finds_nothing(name):
    options = dict(OPTIONS[name])
    sinks = options.get("sinks")
    sinks = None if sinks is None else sinks.clone().requires_grad_()
    start = torch.tensor([-1, 2]) if name == "lengths" else 2
    carried = taken_apart((options.get("mask"), start, options.get("dropout"), None))
    rest = 0.4, options.get("softcap"), "ieee"
    given = *leaves(), None, sinks, *carried, *rest, True
    torch.library.opcheck(kernel_forward, given)
    with torch.no_grad():
        q, k, v, *_ = given
        out, lse, *_ = kernel_forward(*given)
        given = draw(1, 1, 1, 1).expand(out.shape), draw(*lse.shape), q, k, v, None, sinks, out, lse
        torch.library.opcheck(kernel_backward, (*given, *carried, *rest, False))


def test_options_may_be_made_inside_a_graph():
    def call(q, k, v, slopes, n, seed):
        options = {"bias": kernels.alibi(slopes), "mask": masks.causal & masks.lengths(n)}
        return kernels.attention(q, k, v, dropout=Dropout(0.3, seed), **options)

    given = *leaves(), draw(2).exp(), torch.tensor([4, 7]), torch.tensor(5)
    assert_equal(torch.compile(call, fullgraph=True, backend="aot_eager")(*given), call(*given))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), list(zip(OPTIONS, cycle(["inductor", "aot_eager"]), strict=False)))
def test_a_graph_of_one_piece_gives_the_same(name, backend):
    def call(q, k, v):
        return kernels.attention(q, k, v, **OPTIONS[name])

    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for n_q in (N_Q, 4):  # the second time the graph has dynamic shapes
        inputs = leaves(n_q)
        out = compiled(*inputs)
        d_out = draw(*out.shape)
        assert_equal(out, call(*inputs))
        found = torch.autograd.grad(out, inputs, d_out)
        for one, other in zip(found, gradients(call, inputs, d_out), strict=True):
            assert_equal(one, other)


def test_a_new_mask_of_the_same_structure_needs_no_new_graph():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(
        lambda *inputs, mask: kernels.attention(*inputs, mask=mask), fullgraph=True, backend=backend
    )
    with torch.no_grad():
        inputs = leaves()
        for left in (1, 2, 3, 4):
            mask = masks.window(left, 0) & masks.lengths(torch.tensor([left, 7]))
            assert_equal(compiled(*inputs, mask=mask), kernels.attention(*inputs, mask=mask))
    assert len(graphs) <= 2  # the second takes the window's numbers as they come


def test_numbers_and_sizes_may_change_from_call_to_call():
    def call(q, k, v, mask, cap):
        return kernels.attention(q, k, v, mask=mask, scale=0.1 * cap, softcap=cap)

    compiled = torch.compile(call, fullgraph=True, backend="eager", dynamic=True)
    with torch.no_grad():
        for n_q, n_k, cap in [(5, 7, 1.0), (4, 6, 2.0), (1, 1, 3.0), (0, 3, 4.0), (3, 0, 5.0)]:
            given = *leaves(n_q, n_k), masks.window(n_k, 0), cap
            assert_equal(compiled(*given), call(*given))


def test_autocast_changes_nothing():
    inputs = leaves()
    with torch.autocast("cpu", torch.bfloat16):
        within = kernels.attention(*inputs)
    assert within.dtype == torch.float32
    assert_equal(within, kernels.attention(*inputs))


@pytest.mark.parametrize("kind", ["expanded", "permuted", "of one number", "every second"])
def test_the_gradient_of_the_output_has_any_strides(kind):
    shape = 2, 2, N_Q, 3
    d_out = {
        "expanded": draw(2, 1, N_Q, 1).expand(shape),
        "permuted": draw(N_Q, 3, 2, 2).permute(3, 2, 0, 1),
        "of one number": torch.ones(()).expand(shape),
        "every second": draw(2, 2, N_Q, 6)[..., ::2],
    }[kind]
    inputs = leaves()
    found = gradients(kernels.attention, inputs, d_out)
    expected = gradients(nn.attention, inputs, d_out)
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other, **CLOSE)


def test_lse_is_differentiable_alone_and_beside_the_output():
    sinks = draw(2).requires_grad_()
    inputs = [*leaves(), sinks]
    d_lse, d_out = draw(2, 2, N_Q), draw(2, 2, N_Q, 3)

    def both(floor):
        def call(q, k, v, sinks):
            out, stats = floor.attention_stats(q, k, v, mask=masks.causal, sinks=sinks, softcap=3.0)
            return out, stats.lse

        return call

    for d_outputs in [(torch.zeros_like(d_out), d_lse), (d_out, d_lse)]:
        found = gradients(both(kernels), inputs, *d_outputs)
        for one, other in zip(found, gradients(both(nn), inputs, *d_outputs), strict=True):
            assert_equal(one, other, **CLOSE)
    q, k, _, _ = inputs
    out, stats = kernels.attention_stats(*inputs[:3])
    alone = torch.autograd.grad(stats.lse, (q, k), d_lse)
    for one, other in zip(
        alone, torch.autograd.grad(nn.attention_stats(*inputs[:3])[1].lse, (q, k), d_lse), strict=True
    ):
        assert_equal(one, other, **CLOSE)
    assert out.requires_grad
    assert not stats.max_logit.requires_grad
    assert not stats.entropy.requires_grad


def test_a_second_derivative_is_refused_by_name():
    inputs = leaves()
    (dq,) = torch.autograd.grad(kernels.attention(*inputs).sum(), inputs[0], create_graph=True)
    with pytest.raises(ValueError, match="has no second derivative: mha"):
        dq.sum().backward()


def test_gradients_sum_over_what_was_broadcast():
    q, k, v = draw(3, 2, 2, N_Q, 8), draw(2, 1, N_K, 8), draw(1, 1, 1, N_K, 3)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    d_out = draw(3, 2, 2, N_Q, 3)
    found = gradients(kernels.attention, inputs, d_out)
    for one, other in zip(found, gradients(nn.attention, inputs, d_out), strict=True):
        assert_equal(one, other, **CLOSE)


@pytest.mark.parametrize("shape", [(N_K,), (2, N_Q, 1), (2, 1, 1, 1, N_K), (2, 2, 1, N_Q, N_K)], ids=str)
def test_a_bias_of_any_shape_gets_its_gradient(shape):
    q, k, v = draw(2, 2, 2, N_Q, 8), draw(2, 1, N_K, 8), draw(2, 1, N_K, 3)
    bias, d_out = draw(*shape).requires_grad_(), draw(2, 2, 2, N_Q, 3)

    def gradient(floor):
        return torch.autograd.grad(floor.attention(q, k, v, mask=masks.causal, bias=bias), bias, d_out)[0]

    assert_equal(gradient(kernels), gradient(nn), **CLOSE)


def test_a_layer_learns_the_same_with_the_kernel_as_its_core():
    found = []
    for core in (kernels.attention, nn.attention):
        torch.manual_seed(3)
        layer = nn.MultiHeadAttention(8, 2, num_kv_heads=1, sinks=True, dropout=0.2, core=core)
        layer(draw(2, N_Q, 8), mask=masks.causal).square().sum().backward()
        found.append({name: x.grad for name, x in layer.named_parameters()})
    kernel, plain = found
    for name, gradient in plain.items():
        assert_equal(kernel[name], gradient, **CLOSE, label=name)
