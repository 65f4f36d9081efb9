"""Latent attention against the reference and transformers' DeepSeek-V3; pooled heads against heads that were equal."""

import copy

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn, reference
from mha.nn import Cache, LatentAttention, MultiHeadAttention, Rotary

BATCH, N, D_MODEL, HEADS = 2, 7, 15, 3
WIDTHS = {"d_latent": 11, "d_head": 5, "d_rope": 4, "d_value": 7}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def spread(module, seed=1):
    make = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    return module.eval()


def layer(**options):
    return spread(LatentAttention(D_MODEL, HEADS, **WIDTHS | options, dtype=torch.float64))


@pytest.mark.parametrize("form", ["latent_attention", "absorbed_attention"])
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"mask": masks.causal}, {"softcap": 1.5}], ids=str)
def test_functions_equal_the_reference(form, options):
    axes = [(2, 3, 5, 4), (2, 3, 5, 2), (2, 7, 11), (2, 7, 2), (3, 11, 4), (3, 11, 6)]
    given = [draw(*shape, seed=seed) / 2 for seed, shape in enumerate(axes)]
    expected = getattr(reference, form)(*(x.numpy() for x in given), **options)
    assert_equal(getattr(nn, form)(*given, **options), expected, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"d_query_latent": 13}, {"position": None}], ids=str)
@pytest.mark.parametrize("chunks", [(7,), (1,) * 7, (3, 0, 1, 3)], ids=str)
def test_absorbed_steps_are_the_expanded_whole(options, chunks):
    module, x, cache, parts = layer(**options), draw(BATCH, N, D_MODEL), Cache(), []
    for chunk in x.split(chunks, 1):
        out, cache = module.step(chunk, cache, mask=masks.causal)
        parts.append(out)
    assert_equal(torch.cat(parts, 1), module(x, mask=masks.causal), atol=1e-12)
    assert [tuple(rows.shape) for rows in cache.rows] == [(BATCH, 1, N, 11 + 4)]


def test_gradients_of_both_forms_agree():
    module, x, d_out = layer(), draw(BATCH, N, D_MODEL).requires_grad_(), draw(BATCH, N, D_MODEL, seed=2)
    wanted = [x, *module.parameters()]
    expected = torch.autograd.grad(module(x, mask=masks.causal), wanted, d_out)
    out, _ = module.step(x, Cache(), mask=masks.causal)
    for found, known in zip(torch.autograd.grad(out, wanted, d_out), expected, strict=True):
        assert_equal(found, known, atol=1e-11)


def test_padded_on_the_left_is_unpadded():
    module, x, padding = layer(), draw(BATCH, N, D_MODEL), torch.tensor([0, 3])
    x[1, :3] = torch.nan
    out, cache = module.step(x, Cache(-padding), mask=masks.causal)
    assert_equal(out[1, 3:], module(x[1:, 3:], mask=masks.causal)[0], atol=1e-12)
    more, _ = module.step(draw(BATCH, 1, D_MODEL, seed=3), cache, mask=masks.causal)
    whole = torch.cat([x[1:, 3:], draw(BATCH, 1, D_MODEL, seed=3)[1:]], 1)
    assert_equal(more[1], module(whole, mask=masks.causal)[0, -1:], atol=1e-12)


@pytest.mark.parametrize("d_query_latent", [None, 13])
def test_equals_deepseek(d_query_latent):
    """Values and gradients; the oracle keeps the angles in float32, off by 7 · 2⁻²⁴ at position 6."""
    pytest.importorskip("transformers")
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

    config = DeepseekV3Config(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        q_lora_rank=d_query_latent,
        kv_lora_rank=11,
        qk_nope_head_dim=5,
        qk_rope_head_dim=4,
        v_head_dim=7,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attn_implementation="eager",
    )
    theirs = spread(DeepseekV3Attention(config, layer_idx=0).double())
    module = layer(d_query_latent=d_query_latent)
    with torch.no_grad():
        take = theirs.kv_b_proj.weight.unflatten(0, (HEADS, 12))
        pairs = [
            (module.k_up.weight, take[:, :5].flatten(0, 1)),
            (module.v_up.weight, take[:, 5:].flatten(0, 1)),
            (module.kv_down.weight, theirs.kv_a_proj_with_mqa.weight),
            (module.kv_norm.weight, theirs.kv_a_layernorm.weight),
            (module.out_proj.weight, theirs.o_proj.weight),
        ]
        if d_query_latent is None:
            pairs += [(module.q_up.weight, theirs.q_proj.weight)]
        else:
            pairs += [(module.q_down.weight, theirs.q_a_proj.weight), (module.q_up.weight, theirs.q_b_proj.weight)]
            pairs += [(module.q_norm.weight, theirs.q_a_layernorm.weight)]
        for ours, his in pairs:
            ours.copy_(his)
    x, d_out = draw(BATCH, N, D_MODEL).requires_grad_(), draw(BATCH, N, D_MODEL, seed=2)
    hide = torch.full((N, N), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    cos, sin = DeepseekV3RotaryEmbedding(config)(x.float(), torch.arange(N)[None])
    expected, _ = theirs(x, position_embeddings=(cos.double(), sin.double()), attention_mask=hide)
    (d_expected,) = torch.autograd.grad(expected, x, d_out)
    for out in (module(x, mask=masks.causal), module.step(x, Cache(), mask=masks.causal)[0]):
        assert_equal(out, expected, atol=2e-6)
        assert_equal(torch.autograd.grad(out, x, d_out)[0], d_expected, atol=2e-5)
    module.position = Rotary(layout="half")
    assert float((module(x, mask=masks.causal) - expected).detach().abs().max()) > 1e-3, "the other layout is noticed"


def test_autocast_rounds_the_projections_only():
    """The norms compute in their own precision: torch warns where input and weight of one differ."""
    exact, x = layer(d_query_latent=6), draw(BATCH, N, 15)
    low = copy.deepcopy(exact).bfloat16()(x.bfloat16(), mask=masks.causal)
    expected, single = exact(x, mask=masks.causal), copy.deepcopy(exact).float()
    with torch.autocast("cpu", torch.bfloat16):
        whole = single(x.float(), mask=masks.causal)
        stepped, _ = single.step(x.float(), nn.Cache(), mask=masks.causal)
    assert whole.dtype == stepped.dtype == torch.bfloat16
    error, step_error, allowed = ((y.double() - expected).abs().max() for y in (whole, stepped, low))
    assert max(error, step_error) <= 2 * allowed


def test_pooled_heads():
    full = spread(MultiHeadAttention(D_MODEL, 6, d_head=4, position=Rotary(), dtype=torch.float64))
    x = draw(BATCH, N, D_MODEL)
    pooled = nn.with_pooled_heads(full, 2)
    w = full.k_proj.weight.detach().numpy().T
    assert_equal(pooled.k_proj.weight.detach().numpy().T, reference.pool_heads(w, 6, 2), atol=1e-15)
    assert tuple(pooled.project(x)[1].shape) == (BATCH, 2, N, 4)
    with torch.no_grad():  # heads that were equal lose nothing
        for linear in (full.k_proj, full.v_proj):
            for part in (linear.weight, linear.bias):
                strips = part.unflatten(0, (2, 3, 4))
                strips[:] = strips[:, :1].clone()
    assert_equal(nn.with_pooled_heads(full, 2)(x, mask=masks.causal), full(x, mask=masks.causal), atol=1e-12)
    with pytest.raises(ValueError, match="num_kv_heads is 4 and the module has 6"):
        nn.with_pooled_heads(full, 4)


class Both(Rotary):
    def bias(self, q_positions, k_positions):
        raise NotImplementedError


class Contents(Rotary):
    def content_bias(self, q, k, q_positions, k_positions, scale):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: layer(d_latent=0), "d_latent is 0: expected at least 1"),
        (lambda: layer(d_rope=3), "d_rope is 3: expected an even width"),
        (lambda: layer()(draw(BATCH, N, 14)), r"x has shape \(2, 7, 14\): expected \(batch, length, 15\)"),
        (
            lambda: layer(position=nn.RelativeBias(3)),
            r"expected rotate\(x, positions\) alone; a bias goes into the call",
        ),
        (lambda: layer(position=Both()), r"expected rotate\(x, positions\) alone"),
        (lambda: layer(position=Contents()), r"expected rotate\(x, positions\) alone"),
        (lambda: layer()(draw(15)), r"x has shape \(15,\): expected \(batch, length, 15\)"),
        (lambda: layer().step(draw(15), nn.Cache()), r"x has shape \(15,\): expected \(batch, length, 15\)"),
        (lambda: layer().step(draw(BATCH, N, 15), None), r"cache is None"),
        (lambda: nn.latent_attention(*[np.zeros(1)] * 6), r"q is a NumPy array"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
