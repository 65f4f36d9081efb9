"""Splitting, joining and projecting heads, against loops over heads and torch's module."""

import numpy as np
import pytest
import torch

import rounding
from compare import assert_equal
from mha import masks
from mha.reference import (
    attention,
    head_contributions,
    head_outputs,
    join_heads,
    multi_head_attention,
    split_heads,
)

B, N, M, WIDTH, H, D = 2, 5, 7, 12, 3, 4


def draw(seed, *shape, std=1.0):
    return np.random.default_rng(seed).normal(size=shape, scale=std)


def projected(width_in, width_out):
    """Bound the difference of two x W with entries below 8 and 2."""
    return 2 * (width_in + 2) * width_out * rounding.EPS * 16


def test_split_heads():
    x = draw(0, B, N, H * D)
    heads = split_heads(x, H)
    for h in range(H):
        assert_equal(heads[:, h], x[..., h * D : (h + 1) * D])


@pytest.mark.parametrize("shape", [(3, 7), (5, 3, 14), (2, 5, 0, 14), (2, 0, 21)])
def test_join_heads_undoes_split_heads(shape):
    x = draw(0, *shape)
    assert_equal(join_heads(split_heads(x, 7)), x)


WEIGHTS = dict(zip(("w_q", "w_k", "w_v", "w_o"), (draw(s, WIDTH, WIDTH, std=0.3) for s in range(4)), strict=True))


def test_head_outputs_equals_one_head_at_a_time():
    x, context = draw(5, B, N, WIDTH), draw(6, B, M, WIDTH)
    weights = {name: WEIGHTS[name] for name in ("w_q", "w_k", "w_v")}
    outputs = head_outputs(x, **weights, num_heads=H, context=context, mask=masks.causal)
    for h in range(H):
        columns = slice(h * D, (h + 1) * D)
        q, k, v = (source @ w[:, columns] for source, w in zip((x, context, context), weights.values(), strict=True))
        expected = attention(q[:, None], k[:, None], v[:, None], mask=masks.causal)[:, 0]
        assert_equal(outputs[:, h], expected, atol=rounding.of_output(q, k, v) + projected(WIDTH, WIDTH))


def test_head_contributions_sum_to_the_joined_product():
    heads, w_o = draw(0, B, H, N, D), draw(1, H * D, 7)
    contributions = head_contributions(heads, w_o)
    assert contributions.shape == (B, H, N, 7)
    assert_equal(contributions.sum(1), join_heads(heads) @ w_o, atol=projected(WIDTH, 7))


@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention_equals_torch(bias):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(WIDTH, H, bias=bias, batch_first=True, dtype=torch.float64)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    w_q, w_k, w_v = (w.detach().numpy().T for w in module.in_proj_weight.chunk(3))
    w_o = module.out_proj.weight.detach().numpy().T
    biases = (None,) * 4
    if bias:
        biases = (*(b.detach().numpy() for b in module.in_proj_bias.chunk(3)), module.out_proj.bias.detach().numpy())
    x, context = draw(5, B, N, WIDTH), draw(6, B, M, WIDTH)
    see = masks.lengths([3, 7])
    expected, _ = module(
        *map(torch.from_numpy, (x, context, context)),
        key_padding_mask=torch.from_numpy(~see.dense(N, M)[:, 0, 0]),
        need_weights=False,
    )
    output = multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads=H, biases=biases, context=context, mask=see)
    assert_equal(output, expected.detach(), atol=8 * projected(WIDTH, WIDTH))


def test_grouped_heads_equal_repeated_projections():
    x, num_heads, num_kv_heads = draw(5, B, N, WIDTH), 6, 2
    w_k, w_v = draw(7, WIDTH, 4, std=0.3), draw(8, WIDTH, 10, std=0.3)
    w_o = draw(9, 30, WIDTH, std=0.3)
    grouped = multi_head_attention(x, WEIGHTS["w_q"], w_k, w_v, w_o, num_heads=num_heads, num_kv_heads=num_kv_heads)
    wide_k, wide_v = (w.reshape(WIDTH, 2, -1).repeat(3, axis=1).reshape(WIDTH, -1) for w in (w_k, w_v))
    full = multi_head_attention(x, WEIGHTS["w_q"], wide_k, wide_v, w_o, num_heads=num_heads)
    assert_equal(grouped, full, atol=8 * projected(WIDTH, 30))


def test_a_permutation_of_the_input_permutes_the_output():
    x, order = draw(5, B, N, WIDTH), np.random.default_rng(0).permutation(N)
    output = multi_head_attention(x, **WEIGHTS, num_heads=H)
    assert_equal(
        multi_head_attention(x[:, order], **WEIGHTS, num_heads=H), output[:, order], atol=8 * projected(WIDTH, WIDTH)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "the width of x is 12 and num_heads is 5, remainder 2"),
        ({"w_q": np.zeros((7, 12))}, r"w_q has shape \(7, 12\): expected \(12, d_out\)"),
        ({"w_o": np.zeros((5, 12))}, r"w_o has shape \(5, 12\): expected \(12, d_out\).*transpose"),
        ({"biases": (np.zeros(5), None, None, None)}, r"bias beside w_q has shape \(5,\): expected \(12,\)"),
        ({"x": np.zeros(12)}, r"x has shape \(12,\): expected \(…, length, width\)"),
    ],
)
def test_misfits_are_named(change, message):
    arguments = {"x": draw(5, B, N, WIDTH), **WEIGHTS, "num_heads": H} | change
    with pytest.raises(ValueError, match=message):
        multi_head_attention(**arguments)
