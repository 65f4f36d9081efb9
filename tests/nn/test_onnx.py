"""The exported graph, run by ONNX's own evaluator (NumPy, no torch), against the layer."""

from functools import partial

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from compare import assert_equal
from exact import assert_same_function
from mha import masks
from mha.nn import AfterPosition, Rotary, RotaryFrequencies, attention, to_onnx
from naming import named
from nn.layers import draw, layer

BATCH, N, M, D_MODEL = 2, 5, 7, 13
PLAIN = {"d_head": 4}
OPTIONS = {
    "plain": {},
    "grouped": {"num_kv_heads": 2},
    "one key head": {"num_kv_heads": 1, "bias": False},
    "scale": {"scale": 0.75},
    "softcap": {"softcap": 1.5},
    "qk_norm": {"qk_norm": partial(nn.RMSNorm, eps=1e-3), "num_kv_heads": 3},
    "layer norm": {"qk_norm": nn.LayerNorm},
    "layer norm, no bias": {"qk_norm": partial(nn.LayerNorm, bias=False)},
    "norm without gain": {"qk_norm": partial(nn.RMSNorm, elementwise_affine=False)},
    "gate": {"gate": True},
}
TURNED = {
    "rotary": {"position": Rotary(base=100.0), "num_kv_heads": 2},
    "interleaved": {"position": Rotary(layout="interleaved")},
    "partial": {"position": Rotary(width=2), "num_kv_heads": 2},
    "yarn": {"position": RotaryFrequencies((1.0, 0.1), layout="interleaved", gain=1.3)},
    "qk_norm": {"position": Rotary(), "qk_norm": partial(nn.RMSNorm, eps=1e-3), "num_kv_heads": 3},
    "norm last": {"position": Rotary(), "qk_norm": AfterPosition(nn.RMSNorm)},
}
CLOSE = {"rtol": 1e-6, "atol": 1e-6}  # the attributes of ONNX (scale, softcap, epsilon) are float32


def run(model, **inputs):
    return ReferenceEvaluator(model).run(None, {name: x.numpy() for name, x in inputs.items()})[0]


def attention_node(model):
    (node,) = (node for node in model.graph.node if node.op_type == "Attention")
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


@pytest.mark.parametrize("mask", [None, masks.causal], ids=["all", "causal"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_graph_is_the_layer(options, mask):
    module, x = layer(D_MODEL, 6, **PLAIN | options), draw(BATCH, N, D_MODEL)
    model = to_onnx(module, mask=mask)
    assert model.opset_import[0].version == 23
    assert attention_node(model)["kv_num_heads"] == module.num_kv_heads
    for length in (N, 1, 11):
        assert_equal(run(model, x=draw(3, length, D_MODEL)), module(draw(3, length, D_MODEL), mask=mask), **CLOSE)
    assert_equal(run(model, x=x), module(x, mask=mask), **CLOSE)


@pytest.mark.parametrize("mask", [None, masks.causal], ids=["all", "causal"])
@pytest.mark.parametrize("options", TURNED.values(), ids=TURNED)
def test_positions_are_in_the_graph(options, mask):
    """In float32: ONNX turns no doubles."""
    exact = layer(D_MODEL, 6, **PLAIN | options)
    single, x = layer(D_MODEL, 6, **PLAIN | options, dtype=torch.float32), draw(BATCH, 17, D_MODEL, dtype=torch.float32)
    single.load_state_dict(exact.state_dict())
    found = run(to_onnx(single, mask=mask), x=x)
    assert_same_function(found, single(x, mask=mask), exact(x.double(), mask=mask), label="self")
    queries = x[:, -3:]
    if mask is None:
        found = run(to_onnx(single, inputs=("x", "context")), x=queries, context=x)
        assert_same_function(found, single(queries, x), exact(queries.double(), x.double()), label="cross")


@pytest.mark.parametrize("options", [OPTIONS["grouped"], OPTIONS["qk_norm"]], ids=str)
def test_context_mask_and_bias_are_inputs(options):
    module, x = layer(D_MODEL, 6, **PLAIN | options, d_key_in=11, d_value_in=11), draw(BATCH, N, D_MODEL)
    context, bias = draw(BATCH, M, 11, seed=1), draw(1, 6, N, M, seed=2)
    see = torch.rand(BATCH, 1, N, M, generator=torch.Generator().manual_seed(3)) > 0.4
    see[1, 0, 2] = False
    both = {"mask": see, "bias": bias}
    for names in ((), ("mask",), ("bias",), ("mask", "bias")):
        given = {name: both[name] for name in names}
        model = to_onnx(module, inputs=("x", "context", *names))
        assert_equal(run(model, x=x, context=context, **given), module(x, context, **given), **CLOSE, label=str(names))


def test_a_row_that_sees_nothing_gives_the_bias_of_the_output():
    module, x = layer(D_MODEL, 6, **PLAIN), draw(1, N, D_MODEL)
    out = run(to_onnx(module, inputs=("x", "mask")), x=x, mask=torch.zeros(1, 1, N, N, dtype=torch.bool))
    assert_equal(out, module.out_proj.bias.expand(1, N, -1))


def test_causal_and_mask_both_hold():
    module, x = layer(D_MODEL, 6, **PLAIN), draw(BATCH, N, D_MODEL)
    see = torch.rand(1, 1, N, N, generator=torch.Generator().manual_seed(3)) > 0.4
    model = to_onnx(module, inputs=("x", "mask"), mask=masks.causal)
    assert_equal(run(model, x=x, mask=see), module(x, mask=masks.causal & masks.dense(see)), **CLOSE)


def test_the_precision_is_that_of_the_weights():
    module, x = layer(D_MODEL, 6, **PLAIN, dtype=torch.float32), draw(BATCH, N, D_MODEL, dtype=torch.float32)
    out = run(to_onnx(module), x=x)
    assert out.dtype == np.float32
    assert_same_function(out, module(x), module.double()(x.double()), label="float32")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sinks": True}, "sinks is Parameter"),
        ({"core": lambda q, k, v, **options: attention(q, k, v)}, "core is <function"),
        ({"dropout": 0.5}, r"dropout is 0\.5: the ONNX graph has no counterpart; eval\(\) switches it off"),
        ({"scale": -1.0}, r"scale is -1\.0"),
        ({"dtype": torch.bfloat16}, r"dtype is torch\.bfloat16"),
        ({"qk_norm": lambda width, **options: nn.Identity()}, "qk_norm is"),
        ({"qk_norm": type("Other", (nn.RMSNorm,), {})}, "qk_norm is"),
        ({"position": type("Other", (Rotary,), {})(), "dtype": torch.float32}, "position is Other"),
    ],
    ids=named,
)
def test_what_the_operator_lacks_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        to_onnx(layer(D_MODEL, 6, **PLAIN | options))


class Adding:
    def bias(self, q_positions, k_positions):
        return (k_positions - q_positions[:, None]).double()


@pytest.mark.parametrize(
    ("options", "call", "words"),
    [
        ({"position": Adding()}, {}, "position is"),
        ({"position": Rotary()}, {}, "position is Rotary"),
        ({}, {"mask": masks.window(2, 0)}, r"mask is window\(2, 0\): expected masks\.causal"),
        ({}, {"mask": masks.causal, "inputs": ("x", "context")}, "ONNX aligns it upper left"),
        ({}, {"inputs": ("context",)}, r"inputs are \('context',\): expected 'x'"),
        ({}, {"inputs": ("x", "sinks")}, r"inputs are \('x', 'sinks'\)"),
        ({"d_key_in": 3}, {"inputs": ("x", "context")}, "d_key_in and d_value_in differ"),
    ],
    ids=named,
)
def test_what_the_graph_cannot_be_is_named(options, call, words):
    with pytest.raises(ValueError, match=words):
        to_onnx(layer(D_MODEL, 6, **PLAIN | options), **call)


def test_layers_of_another_kind_are_named():
    with pytest.raises(TypeError, match="module is a MultiheadAttention: expected a MultiHeadAttention"):
        to_onnx(nn.MultiheadAttention(6, 2))
    module = layer(D_MODEL, 6, **PLAIN)
    module.v_proj = type("LoRA", (nn.Linear,), {"forward": lambda self, x: 2 * nn.Linear.forward(self, x)})(D_MODEL, 24)
    with pytest.raises(ValueError, match="a projection is this one"):
        to_onnx(module)
