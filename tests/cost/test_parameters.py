"""Counted by formula, counted in modules."""

import pytest
import torch

from cost import deepseek
from mha import nn
from mha.analysis import remove_heads
from mha.cost import (
    Latent,
    attention_flops,
    attention_parameters,
    block_parameters,
    feed_forward_parameters,
    kv_cache_bytes,
    latent_parameters,
    transformer_parameters,
)
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_heads", [1, 3, 7])
def test_attention_parameters_of_torch(num_heads, bias):
    module = torch.nn.MultiheadAttention(21, num_heads, bias=bias)
    assert attention_parameters(21, num_heads, bias=bias) == sum(p.numel() for p in module.parameters())


def test_attention_parameters_of_grouped_heads():
    """q 20·(6·5) + 30, k and v 20·(2·5) + 10 each, output (6·5)·20 + 20."""
    assert attention_parameters(20, 6, num_kv_heads=2, d_head=5) == 630 + 2 * 210 + 620
    assert attention_parameters(512, 8, bias=False) == 4 * 512**2


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gone", [{0}, {4, 5}, {0, 1, 5}])
def test_parameters_flops_and_cache_of_a_layer_with_unequal_groups(gone, bias):
    module, x = nn.MultiHeadAttention(20, 6, num_kv_heads=3, d_head=5, bias=bias), torch.zeros(1, 7, 20)
    remove_heads(module, gone)
    sizes = {"num_kv_heads": module.num_kv_heads, "d_head": 5}
    expected = sum(p.numel() for p in module.parameters())
    assert attention_parameters(20, module.num_heads, bias=bias, **sizes) == expected
    products = [2 * 7 * linear.weight.numel() for linear in (module.q_proj, module.k_proj, module.v_proj)]
    products += [2 * 7 * module.out_proj.weight.numel(), 2 * 2 * 7 * 7 * 5 * module.num_heads]
    assert attention_flops(7, 20, module.num_heads, **sizes) == sum(products)
    _, cache = module.step(x, nn.Cache())
    assert kv_cache_bytes(7, **sizes, itemsize=4) == sum(rows.nbytes for rows in cache.rows)


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


def numbers(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("bias", [False, True])
def test_feed_forward_parameters_of_our_layer(bias):
    for num_matrices, activation in ((2, "relu"), (3, "swiglu")):
        layer = nn.FeedForward(15, 17, activation=activation, bias=bias)
        assert feed_forward_parameters(15, 17, num_matrices=num_matrices, bias=bias) == numbers(layer)


@pytest.mark.parametrize("bias", [False, True])
def test_block_parameters_of_torch_and_of_ours(bias):
    encoders = torch.nn.TransformerEncoderLayer(15, 3, 17, bias=bias), nn.EncoderBlock(15, 3, 17, bias=bias)
    decoders = torch.nn.TransformerDecoderLayer(15, 3, 17, bias=bias), nn.DecoderBlock(15, 3, 17, bias=bias)
    for num_attentions, layers in ((1, encoders), (2, decoders)):
        expected = block_parameters(15, 3, 17, num_attentions=num_attentions, bias=bias)
        assert [numbers(layer) for layer in layers] == [expected, expected]


@pytest.mark.parametrize("num_heads", [8, 16])
@pytest.mark.parametrize("d_model", [512, 1024])
def test_transformer_parameters_of_our_model(d_model, num_heads):
    with torch.device("meta"):
        model = Seq2Seq(Seq2SeqConfig(11, 13, d_model, num_heads, 6, 4 * d_model, norm_first=False))
    assert transformer_parameters(11 + 13, d_model, num_heads, 4 * d_model, 6) == numbers(model)


def test_the_published_sizes_within_their_rounding():
    """65 and 213 million (Vaswani et al. 2017, table 3), of which the vocabulary of about 37,000 takes 19 and 38."""
    base, big = (transformer_parameters(37_000, d, h, 4 * d, 6) for d, h in ((512, 8), (1024, 16)))
    assert (round(base / 1e6), round(big / 1e6)) == (63, 214)


def test_misfits_are_named():
    with pytest.raises(ValueError, match="d_model is 10 and num_heads is 3, remainder 1"):
        attention_parameters(10, 3)
    with pytest.raises(ValueError, match="d_rope is 0: expected at least 1"):
        Latent(d_latent=7, d_rope=0, d_head=5, d_value=11)
    with pytest.raises(ValueError, match="num_heads is 0: expected at least 1"):
        latent_parameters(26, 0, deepseek.latent(None))
    with pytest.raises(TypeError, match="bias is 2: expected True or False"):
        attention_parameters(12, 3, bias=2)
