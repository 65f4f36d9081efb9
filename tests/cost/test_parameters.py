"""Counted by formula, counted in modules."""

import pytest
import torch

from cost import deepseek
from mha import nn
from mha.cost import Latent, attention_parameters, latent_parameters


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_heads", [1, 3, 7])
def test_attention_parameters_of_torch(num_heads, bias):
    module = torch.nn.MultiheadAttention(21, num_heads, bias=bias)
    assert attention_parameters(21, num_heads, bias=bias) == sum(p.numel() for p in module.parameters())


def test_attention_parameters_of_grouped_heads():
    """q 20·(6·5) + 30, k and v 20·(2·5) + 10 each, output (6·5)·20 + 20."""
    assert attention_parameters(20, 6, num_kv_heads=2, d_head=5) == 630 + 2 * 210 + 620
    assert attention_parameters(512, 8, bias=False) == 4 * 512**2


@pytest.mark.parametrize("narrow", [None, 13])
def test_latent_parameters_of_deepseek(narrow):
    module = deepseek.module(narrow)
    expected = sum(p.numel() for p in module.parameters())
    assert latent_parameters(deepseek.D_MODEL, deepseek.HEADS, deepseek.latent(narrow)) == expected


@pytest.mark.parametrize("narrow", [None, 13])
def test_latent_parameters_of_our_layer(narrow):
    sizes = deepseek.latent(narrow)
    layer = nn.LatentAttention(deepseek.D_MODEL, deepseek.HEADS, **vars(sizes))
    expected = sum(p.numel() for p in layer.parameters())
    assert latent_parameters(deepseek.D_MODEL, deepseek.HEADS, sizes) == expected


def test_misfits_are_named():
    with pytest.raises(ValueError, match="d_model is 10 and num_heads is 3, remainder 1"):
        attention_parameters(10, 3)
    with pytest.raises(ValueError, match="d_rope is 0: expected at least 1"):
        Latent(d_latent=7, d_rope=0, d_head=5, d_value=11)
    with pytest.raises(ValueError, match="num_heads is 0: expected at least 1"):
        latent_parameters(26, 0, deepseek.latent(None))
    with pytest.raises(TypeError, match="bias is 2: expected True or False"):
        attention_parameters(12, 3, bias=2)
