"""Tables of DeBERTa that far distances share, against the reference; layers that share a table."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import reference
from mha.nn import DisentangledBias, disentangled_bias
from nn.layers import draw, layer

HEADS, D = 6, 4


@pytest.mark.parametrize("options", [{}, {"paper_sign": True}, {"max_distance": 9}, {"max_distance": 100}], ids=str)
def test_far_away(options):
    q, k = draw(2, HEADS, 5, D), draw(2, 3, 7, D, seed=1)
    tables = draw(HEADS, 12, D, seed=2), draw(HEADS, 12, D, seed=3)
    places = torch.tensor([3, 900, -700, 1, 5]), torch.arange(7) * 13
    expected = reference.disentangled_bias(*(x.numpy() for x in (q, k, *tables, *places)), **options)
    assert_equal(disentangled_bias(q, k, *tables, *places, **options), expected, rtol=1e-12, atol=1e-13)


def test_layers_share_a_table_and_its_gradient():
    x, options = draw(2, 5, 12), {"span": 3, "d_head": D, "dtype": torch.float64}
    first, second = (DisentangledBias(12, HEADS, **options) for _ in range(2))
    second.weight = first.weight
    layers = [layer(12, HEADS, d_head=D, position=scheme, scale=scheme.scale) for scheme in (first, second)]
    torch.nn.Sequential(*layers)(x).square().sum().backward()
    whole = first.weight.grad.clone()
    assert len({id(p) for module in layers for p in module.parameters()}) == 2 * (8 + 4) + 1
    assert whole.abs().max() > 1e-3
    assert second.weight.grad is first.weight.grad


def test_the_projections_of_the_layer_itself():
    """As in the third version: what a position is asked by and asks for is projected as contents are."""
    scheme = DisentangledBias(12, HEADS, span=3, d_head=D, dtype=torch.float64)
    module, x = layer(12, HEADS, d_head=D, position=scheme, scale=scheme.scale), draw(2, 5, 12)
    scheme.q_proj, scheme.k_proj = module.q_proj, module.k_proj
    q, k, _ = module.project(x)
    tables = (
        reference.split_heads(linear(scheme.weight).detach().numpy(), HEADS)
        for linear in (module.k_proj, module.q_proj)
    )
    numbers = [part.detach().numpy() for part in (q, k)]
    places = np.arange(5)
    bias = reference.disentangled_bias(*numbers, *tables, places, places, scale=scheme.scale)
    expected = reference.attention_weights(*numbers, bias=bias, scale=(3 * D) ** -0.5)
    assert_equal(module.weights(x), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"span": 0}, "span is 0: expected at least 1"),
        ({"span": 6, "max_distance": 4}, "span is 6 and max_distance is 4: expected an even span of at least 4"),
        ({"span": 3, "max_distance": 9}, "span is 3 and max_distance is 9: expected an even span of at least 4"),
        ({"span": 7, "max_distance": 20}, "span is 7 and max_distance is 20: expected an even span"),
        ({"span": 3, "num_heads": 5}, "d_model is 12 and num_heads is 5, remainder 2"),
        ({"span": 3, "num_heads": 0, "d_head": 4}, "num_heads is 0: expected at least 1"),
        ({"span": 3, "d_head": 0}, "d_head is 0: expected at least 1"),
    ],
)
def test_sizes_that_make_no_table(options, words):
    with pytest.raises(ValueError, match=words):
        DisentangledBias(12, **{"num_heads": HEADS} | options)


def test_a_distance_is_an_integer():
    with pytest.raises(TypeError, match=r"max_distance is 9\.5: expected an integer"):
        DisentangledBias(12, HEADS, span=4, max_distance=9.5)
