"""A layer with every option in graphs, under autocast and exported: the same layer."""

import pytest
import torch
from torch import nn

from compare import assert_equal
from mha import masks
from mha.nn import Rotary
from nn.layers import draw, layer

BATCH, N, D_MODEL = 2, 7, 13
ALL = {
    "num_kv_heads": 2, "d_head": 4, "position": Rotary(base=100.0), "qk_norm": nn.RMSNorm,
    "softcap": 3.0, "sinks": True, "gate": True,
}  # fmt: skip
CLOSE = {"rtol": 1e-11, "atol": 1e-12}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"
)


class Sloped(nn.Module):
    """A position scheme that learns how fast scores fall with the distance."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(draw(6))

    def bias(self, q_positions, k_positions):
        distance = (q_positions[..., :, None] - k_positions[..., None, :]).abs()
        return self.slopes[:, None, None] * distance[..., None, :, :]


def gradients(module, out, x, d_out):
    parameters = dict(module.named_parameters())
    found = torch.autograd.grad(out, [x, *parameters.values()], d_out)
    return dict(zip(["x", *parameters], found, strict=True))


@pytest.mark.parametrize("options", [ALL, {"d_head": 4, "position": Sloped()}], ids=["every option", "bias"])
def test_compiled_without_a_graph_break_at_any_length(options):
    module = layer(D_MODEL, 6, **options)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for n in (N, 5):
        x, d_out = draw(BATCH, n, D_MODEL, seed=n).requires_grad_(), draw(BATCH, n, D_MODEL, seed=n + 1)
        out, expected = compiled(x, mask=masks.causal), module(x, mask=masks.causal)
        assert_equal(out, expected, **CLOSE, label=f"{n} rows")
        found = gradients(module, out, x, d_out)
        for name, gradient in gradients(module, expected, x, d_out).items():
            assert_equal(found[name], gradient, **CLOSE, label=f"{name}, {n} rows")


def test_compiled_with_a_context_and_a_mask_made_outside():
    module, mask = layer(D_MODEL, 6, d_head=4, position=Rotary()), masks.causal & masks.lengths([7, 4])
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    x, context = draw(BATCH, 5, D_MODEL), draw(BATCH, N, D_MODEL, seed=1)
    assert_equal(compiled(x, context, mask=mask), module(x, context, mask=mask), **CLOSE)


def test_compiled_at_any_length_with_the_lengths_of_samples():
    module, mask = layer(D_MODEL, 6, **ALL), masks.causal & masks.lengths([5, 3])
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for n in (5, N):
        x = draw(BATCH, n, D_MODEL)
        assert_equal(compiled(x, mask=mask), module(x, mask=mask), **CLOSE, label=f"{n} rows")


@pytest.mark.parametrize(("options", "name"), [(ALL, "bias"), ({"d_head": 4}, "mask")], ids=["every option", "plain"])
def test_exported_for_any_length(options, name):
    module, n = layer(D_MODEL, 6, **options).eval(), torch.export.Dim.DYNAMIC
    given = {"mask": torch.ones(N, N, dtype=torch.bool).tril(), "bias": draw(6, N, N)}[name]
    rows = given.ndim - 2
    shapes = {"x": {1: n}, name: {rows: n, rows + 1: n}}
    program = torch.export.export(module, (draw(BATCH, N, D_MODEL),), {name: given}, dynamic_shapes=shapes).module()
    for length in (N, 5, 67):
        x = draw(BATCH, length, D_MODEL)
        other = {"mask": torch.ones(length, length, dtype=torch.bool).tril(), "bias": draw(6, length, length)}[name]
        assert_equal(program(x, **{name: other}), module(x, **{name: other}), **CLOSE, label=f"{length} rows")


class Decoder(nn.Module):
    """A layer whose mask is no input."""

    def __init__(self, layer, mask):
        super().__init__()
        self.layer, self.mask = layer, mask

    def forward(self, x):
        return self.layer(x, mask=self.mask)


@pytest.mark.parametrize("mask", [masks.causal, masks.window(2, 1)], ids=repr)
def test_exported_with_its_mask(mask):
    decoder = Decoder(layer(D_MODEL, 6, d_head=4, position=Rotary()).eval(), mask)
    program = torch.export.export(
        decoder, (draw(BATCH, N, D_MODEL),), dynamic_shapes={"x": {1: torch.export.Dim.DYNAMIC}}
    ).module()
    for length in (N, 5, 67):
        x = draw(BATCH, length, D_MODEL)
        assert_equal(program(x), decoder(x), **CLOSE, label=f"{length} rows")


@pytest.mark.parametrize("options", [ALL, {"d_head": 4}], ids=["every option", "plain"])
def test_autocast_rounds_the_projections_only(options):
    module, x = layer(D_MODEL, 6, **options, dtype=torch.float32), draw(BATCH, N, D_MODEL, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = module(x, mask=masks.causal)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and bool(p.grad.isfinite().all()) for p in module.parameters())
    exact = layer(D_MODEL, 6, **options)
    low = layer(D_MODEL, 6, **options, dtype=torch.float32).bfloat16()
    expected = exact(x.double(), mask=masks.causal)
    error, expected_error = ((y.double() - expected).abs().max() for y in (out, low(x.bfloat16(), mask=masks.causal)))
    assert error <= expected_error, "at least as exact as the layer in bfloat16"
