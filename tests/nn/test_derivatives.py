"""Every derivative of `mha.nn.attention`: first, second, forward mode, transforms, compiled."""

import math

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.dropout import Dropout
from mha.nn import attention, attention_stats, attention_weights

pytestmark = [  # torch's own forward mode and compiler use what torch deprecates
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"),
]

B, H, G, N_Q, N_K, D, E = 1, 2, 1, 3, 5, 3, 2


def inputs(seed=0, batch=B, n_q=N_Q, n_k=N_K, num_groups=G):
    make = torch.Generator().manual_seed(seed)
    shapes = (batch, H, n_q, D), (batch, num_groups, n_k, D), (batch, num_groups, n_k, E)
    return [torch.randn(s, generator=make, dtype=torch.float64, requires_grad=True) for s in shapes]


def hole_mask():
    see = torch.rand(B, H, N_Q, N_K, generator=torch.Generator().manual_seed(1)) > 0.4
    see[0, 1, 2] = False
    return see


def bias_with_holes():
    bias = torch.randn(H, N_Q, N_K, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    bias[1, 0] = bias[0, 1, 3] = -math.inf  # an empty row and a hole
    return bias


OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal},
    "window": {"mask": masks.causal & masks.window(1, 0)},
    "holes": {"mask": hole_mask()},
    "bias": {"bias": bias_with_holes()},
    "softcap": {"softcap": 1.5, "mask": hole_mask()},
    "sinks": {"sinks": torch.linspace(-1, 1, H, dtype=torch.float64), "mask": hole_mask()},
    "dropout": {"dropout": Dropout(0.3, 7)},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@each_option
def test_gradients_equal_the_reference(options):
    q, k, v = inputs()
    d_out = torch.randn(B, H, N_Q, E, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    leaves = {"q": q, "k": k, "v": v}
    options = dict(options)
    for name in {"bias", "sinks"} & options.keys():
        leaves[name] = options[name] = options[name].clone().requires_grad_()
    attention(q, k, v, **options).backward(d_out)
    in_numpy = {name: x.detach().numpy() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    expected = reference.attention_backward(*(x.detach().numpy() for x in (q, k, v)), d_out.numpy(), **in_numpy)
    for name, leaf in leaves.items():
        assert_equal(leaf.grad, getattr(expected, name), rtol=1e-11, atol=1e-12, label=name)


@each_option
def test_gradcheck_first_second_and_forward(options):
    q, k, v = inputs()

    def call(q, k, v):
        return attention(q, k, v, **options)

    assert torch.autograd.gradcheck(call, (q, k, v), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, (q, k, v), check_fwd_over_rev=True)


def test_gradcheck_of_bias_and_sinks():
    q, k, v = inputs()
    bias = torch.randn(H, N_Q, N_K, generator=torch.Generator().manual_seed(4), dtype=torch.float64, requires_grad=True)
    sinks = torch.zeros(H, dtype=torch.float64, requires_grad=True)

    def call(bias, sinks):
        return attention(q, k, v, bias=bias, sinks=sinks, mask=hole_mask())

    assert torch.autograd.gradcheck(call, (bias, sinks), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (bias, sinks))


@pytest.mark.parametrize("options", [{}, {"mask": masks.causal}, {"mask": hole_mask()}, OPTIONS["sinks"]])
def test_stats_and_weights_are_differentiable(options):
    q, k, v = inputs()

    def stats(q, k, v):
        found = attention_stats(q, k, v, **options)[1]
        return [x.masked_fill(x == -math.inf, 0.0) for x in (found.lse, found.entropy)]

    assert torch.autograd.gradcheck(stats, (q, k, v.detach()), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(stats, (q, k, v.detach()))
    assert torch.autograd.gradcheck(lambda q, k: attention_weights(q, k, **options), (q, k), check_forward_ad=True)


def test_stats_of_one_tensor_in_every_role():
    x = torch.randn(1, H, N_Q, D, generator=torch.Generator().manual_seed(6), dtype=torch.float64, requires_grad=True)

    def lse(x):
        return attention_stats(x, x, x, mask=masks.causal)[1].lse

    assert torch.autograd.gradcheck(lse, x)
    assert torch.autograd.gradgradcheck(lse, x)
    alone, with_graph = (torch.autograd.grad(lse(x).sum(), x, create_graph=graph)[0] for graph in (False, True))
    assert_equal(with_graph, alone, rtol=1e-12, atol=1e-13)


def test_gradient_of_lse_is_the_mean_key():
    q, k, v = inputs(num_groups=H)
    attention_stats(q, k, v, scale=1.0)[1].lse.sum().backward()
    assert_equal(q.grad, attention(q, k, k, scale=1.0), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"mask": masks.causal}, {"mask": hole_mask()}, OPTIONS["bias"]])
def test_function_transforms(options):
    q, k, v = (x.detach() for x in inputs())

    def call(q):
        return attention(q, k, v, **options)

    tangent = torch.randn_like(q)
    value, slope = torch.func.jvp(call, (q,), (tangent,))
    assert_equal(value, call(q), rtol=1e-12, atol=1e-13)
    pulled = torch.func.vjp(call, q)[1](slope)[0]
    assert_equal((pulled * tangent).sum(), (slope * slope).sum(), rtol=1e-10, label="vjp and jvp agree")
    leaf = q.clone().requires_grad_()
    call(leaf).sin().sum().backward()
    assert_equal(torch.func.grad(lambda q: call(q).sin().sum())(q), leaf.grad, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["bias", "sinks"])
def test_forward_mode_of_the_statistics_along_one_option(name):
    q, k, v = (x.detach() for x in inputs())
    option = torch.zeros(H, dtype=torch.float64) if name == "sinks" else bias_with_holes().nan_to_num(neginf=-1.0)
    tangent = torch.randn(option.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)

    def lse(x):
        return attention_stats(q, k, v, **{name: x})[1].lse.sum()

    with torch.autograd.forward_ad.dual_level():
        slope = torch.autograd.forward_ad.unpack_dual(lse(torch.autograd.forward_ad.make_dual(option, tangent))).tangent
    leaf = option.clone().requires_grad_()
    assert_equal(slope, (torch.autograd.grad(lse(leaf), leaf)[0] * tangent).sum(), rtol=1e-11)


def test_vmap_is_the_loop():
    many = torch.randn(7, B, H, N_Q, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    _, k, v = (x.detach() for x in inputs())

    def call(q):
        return attention(q, k, v, mask=masks.causal)

    assert_equal(torch.func.vmap(call)(many), torch.stack([call(q) for q in many]), rtol=1e-12, atol=1e-13)


EMPTY = {
    "bool mask": ({"mask": torch.tensor([[True, False], [False, False]])}, 1),
    "bias": ({"bias": torch.tensor([[0.0, -math.inf], [-math.inf, -math.inf]])}, 1),
    "causal, more queries than keys": ({"mask": masks.causal, "q_start": -1}, 0),
    "lengths": ({"mask": masks.lengths(np.array([0, 2])) & masks.causal}, None),
}


@pytest.mark.parametrize(("options", "row"), EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("spoiled", [0.0, math.nan, math.inf])
def test_an_empty_row_is_zero_with_gradient_exactly_zero(options, row, create_graph, spoiled):
    q, k, v = (x.detach().float() for x in inputs(batch=2, n_q=2, n_k=2, num_groups=H))
    samples, rows = (slice(None), row) if row is not None else (0, slice(None))
    q[samples, :, rows] += spoiled  # even a poisoned query that sees nothing does nothing
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    out = attention(q, k, v, **options)
    assert_equal(out[samples, :, rows], torch.zeros_like(out[samples, :, rows]))
    gradients = torch.autograd.grad(out.sum(), (q, k, v), create_graph=create_graph)
    assert all(bool(g.isfinite().all()) for g in gradients)
    assert_equal(gradients[0][samples, :, rows], torch.zeros_like(q[samples, :, rows]))


@pytest.mark.parametrize("options", [{}, {"mask": masks.causal}, {"mask": hole_mask()}, {"bias": bias_with_holes()}])
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_without_a_graph_break(options, dynamic):
    eager, compiled = inputs(), inputs()
    run = torch.compile(attention, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    out, expected = run(*compiled, **options), attention(*eager, **options)
    assert_equal(out, expected, rtol=1e-12, atol=1e-13)
    out.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(compiled, eager, strict=True):
        assert_equal(one.grad, other.grad, rtol=1e-11, atol=1e-13)


def test_compiled_triangle():
    """As many queries as keys: the operator knows the causal mask by itself, and looks at what it gives in eager."""
    eager, compiled = (inputs(n_q=N_K, num_groups=H) for _ in range(2))
    run = torch.compile(attention, fullgraph=True, backend="aot_eager")
    out, expected = run(*compiled, mask=masks.causal), attention(*eager, mask=masks.causal)
    assert_equal(out, expected, rtol=1e-12, atol=1e-13)
    found, wanted = (torch.autograd.grad(y.square().sum(), x) for y, x in ((out, compiled), (expected, eager)))
    for one, other in zip(found, wanted, strict=True):
        assert_equal(one, other, rtol=1e-11, atol=1e-13)
