"""Every option of the layer together against the reference: values and gradients."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from compare import assert_equal
from mha import masks
from mha.nn import MultiHeadAttention, Rotary
from naming import named
from nn.layers import draw, in_reference, layer, slope

BATCH, N, M, D_MODEL = 2, 5, 7, 13
ALL = {
    "num_kv_heads": 2, "d_head": 4, "position": Rotary(base=100.0), "qk_norm": partial(nn.RMSNorm, eps=1e-3),
    "scale": 0.7, "softcap": 3.0, "sinks": True, "gate": True,
}  # fmt: skip
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("left_out", [None, *ALL])
def test_the_layer_is_the_reference(left_out):
    options = {name: value for name, value in ALL.items() if name != left_out}
    options |= {"d_head": 4}
    module, x = layer(D_MODEL, 6, **options), draw(BATCH, N, D_MODEL)
    assert_equal(module(x, mask=masks.causal), in_reference(module, x, mask=masks.causal), **CLOSE)


@pytest.mark.parametrize("mask", [None, masks.lengths([6, 3]), masks.window(1, 1) & masks.lengths([7, 0])], ids=repr)
def test_cross_attention_is_the_reference(mask):
    module = layer(D_MODEL, 6, **ALL)
    x, context = draw(BATCH, N, D_MODEL), draw(BATCH, M, D_MODEL, seed=2)
    bias = draw(6, N, M, seed=3)
    expected = in_reference(module, x, context, mask=mask, bias=bias.numpy())
    assert_equal(module(x, context, mask=mask, bias=bias), expected, **CLOSE)


def test_gradients_are_those_of_the_reference():
    """Differences of fourth order at step 1e-4: their own error is (1e-4)⁴ and 1e-15 / 1e-4, about 1e-11."""
    module, x, d_out = layer(D_MODEL, 6, **ALL), draw(BATCH, 3, D_MODEL), draw(BATCH, 3, D_MODEL, seed=3)
    x.requires_grad_()
    out = module(x, mask=masks.causal)
    names = "k_proj.bias", "q_norm.weight", "k_norm.weight", "sinks", "gate_proj.bias"
    parameters = [module.get_parameter(name) for name in names]
    found = torch.autograd.grad(out, [x, *parameters], d_out)
    assert_equal(found[0], slope(lambda x: in_reference(module, x, mask=masks.causal), x.detach(), d_out), atol=1e-9)
    for name, parameter, gradient in zip(names, parameters, found[1:], strict=True):

        def with_other(value, parameter=parameter):
            kept, parameter.data = parameter.data, value
            out = in_reference(module, x, mask=masks.causal)
            parameter.data = kept
            return out

        assert_equal(gradient, slope(with_other, parameter.detach().clone(), d_out), atol=1e-9, label=name)


def test_any_number_of_leading_axes():
    module, x = layer(D_MODEL, 6, **ALL), draw(2, 3, N, D_MODEL)
    for mask in (masks.causal, masks.lengths([5, 3, 2, 0, 1, 4]) & masks.causal):
        flat = module(x.flatten(0, 1), mask=mask)
        assert_equal(module(x, mask=mask).flatten(0, 1), flat, rtol=1e-13, atol=1e-14)
    assert_equal(module(x[0, 0], mask=masks.causal), module(x, mask=masks.causal)[0, 0], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("shape", [(0, N), (BATCH, 0), (BATCH, 1)])
def test_lengths_of_nothing_and_one(shape):
    module, x = layer(D_MODEL, 6, **ALL), draw(*shape, D_MODEL)
    assert_equal(module(x, mask=masks.causal), in_reference(module, x, mask=masks.causal), **CLOSE)


def test_no_context_leaves_the_bias_of_the_output():
    module, x = layer(D_MODEL, 6, **ALL), draw(BATCH, N, D_MODEL)
    assert_equal(module(x, x[:, :0]), module.out_proj.bias.expand(BATCH, N, -1))


def test_options_that_are_not_asked_add_no_parameters():
    plain = ["q_proj", "k_proj", "v_proj", "out_proj"]
    names = [f"{name}.{part}" for name in plain for part in ("weight", "bias")]
    assert list(MultiHeadAttention(6, 2).state_dict()) == names
    added = {"sinks": {"sinks"}, "gate": {"gate_proj.weight", "gate_proj.bias"}}
    added |= {"qk_norm": {"q_norm.weight", "k_norm.weight"}, "position": set()}
    for option, more in added.items():
        module = MultiHeadAttention(6, 3, d_head=4, **{option: ALL[option]})
        assert set(module.state_dict()) - set(names) == more, option


def test_a_saved_state_loads():
    """These names are what people have on disk: a change of one is a change of format."""
    sizes = {"q_proj": (24, 13), "k_proj": (8, 13), "v_proj": (8, 13), "out_proj": (13, 24), "gate_proj": (24, 13)}
    saved = {f"{name}.weight": draw(*shape, seed=n) for n, (name, shape) in enumerate(sizes.items())}
    saved |= {f"{name}.bias": draw(shape[0], seed=9) for name, shape in sizes.items()}
    saved |= {"sinks": draw(6), "q_norm.weight": draw(4), "k_norm.weight": draw(4, seed=1)}
    module = layer(D_MODEL, 6, **ALL)
    assert module.load_state_dict(saved, strict=True).missing_keys == []
    x = draw(BATCH, N, D_MODEL)
    again = MultiHeadAttention(D_MODEL, 6, **ALL, dtype=torch.float64)
    again.load_state_dict(module.state_dict())
    assert_equal(again(x), module(x))


def test_a_fresh_layer_begins_plain():
    module = MultiHeadAttention(12, 3, **ALL | {"num_kv_heads": 3})
    assert_equal(module.sinks, np.zeros(3))
    assert_equal(module.q_norm.weight, np.ones(4))
    assert_equal(module.gate_proj.bias, np.zeros(12))
    module.q_norm.weight.data.fill_(7.0)
    module.reset_parameters()
    assert_equal(module.q_norm.weight, np.ones(4))


@pytest.mark.parametrize("name", ["qk_norm", "sinks", "gate"])
def test_torch_has_no_such_option(name):
    with pytest.raises(ValueError, match=f"has no {name}"):
        MultiHeadAttention(12, 3, **{name: ALL[name]}).to_torch()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sinks": 1}, r"sinks is 1: expected True or False; True learns one logit a query head"),
        ({"gate": "sigmoid"}, r"gate is 'sigmoid': expected True or False"),
        ({"qk_norm": nn.RMSNorm(4)}, r"qk_norm is RMSNorm.*: expected what makes a norm, such as torch.nn.RMSNorm"),
        ({"qk_norm": True}, r"qk_norm is True"),
        ({"qk_norm": lambda d_head, **options: d_head}, r"qk_norm made a int: expected a torch.nn.Module"),
        ({"position": object()}, r"position is .*: expected an object with rotate.*or with bias.* or content_bias"),
    ],
    ids=named,
)
def test_bad_options_are_named(options, words):
    with pytest.raises(TypeError, match=words):
        MultiHeadAttention(12, 3, **options)
