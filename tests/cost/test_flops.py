"""Counted by formula, by hand and by torch."""

import pytest
import torch

from cost import counting, deepseek
from mha import masks, nn
from mha.cost import absorbed_flops, attention_flops, attention_parameters, core_flops, latent_flops, linear_flops


def test_attention_flops_are_those_of_the_loops():
    """One multiply and one add for each step of each loop."""
    n, n_k, d_model, num_heads, num_kv_heads, d_head = 3, 5, 14, 6, 2, 7
    steps = 0
    steps += n * d_model * num_heads * d_head  # q
    steps += 2 * n_k * d_model * num_kv_heads * d_head  # k, v
    steps += num_heads * n * n_k * d_head  # scores
    steps += num_heads * n * n_k * d_head  # mix
    steps += n * num_heads * d_head * d_model  # output
    assert attention_flops(n, d_model, num_heads, n_k=n_k, num_kv_heads=num_kv_heads, d_head=d_head) == 2 * steps


def test_attention_flops_formula():
    n, d = 11, 35
    assert attention_flops(n, d, 5) == 8 * n * d**2 + 4 * n**2 * d
    causal = attention_flops(n, d, 5, pairs=masks.causal.pairs(n, n))
    assert causal == 8 * n * d**2 + 4 * (n * (n + 1) // 2) * d
    assert attention_flops(0, d, 5) == 0


def test_attention_flops_equal_torchs_counter():
    x = torch.zeros(1, 11, 35)
    w = torch.zeros(35, 35)

    def layer():
        q, k, v = ((x @ w).view(1, 11, 5, 7).transpose(1, 2) for _ in range(3))
        (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(1, 11, 35) @ w

    assert attention_flops(11, 35, 5) == counting.flops(layer)


def test_core_flops_are_torchs_count_on_the_composed_path():
    """A bias takes `nn.attention` to plain products, which torch counts; of a mask it counts every pair."""
    q, k, v = torch.zeros(1, 6, 11, 5), torch.zeros(1, 2, 13, 5), torch.zeros(1, 2, 13, 7)
    bias = torch.zeros(11, 13)
    every = counting.flops(lambda: nn.attention(q, k, v, bias=bias))
    assert every == core_flops(11 * 13, 6, 5, d_value=7)
    assert counting.flops(lambda: nn.attention(q, k, v, bias=bias, mask=masks.causal)) == every
    visible = masks.causal.dense(11, 13).sum()
    assert core_flops(masks.causal.pairs(11, 13), 6, 5, d_value=7) == 6 * visible * 2 * (5 + 7)


def test_linear_flops_are_torchs_count():
    q, k = (torch.zeros(1, 3, 11, 5) for _ in range(2))
    features = nn.FeatureAttention()
    assert linear_flops(11, 3, 5, 7) == counting.flops(lambda: features(q, k, torch.zeros(1, 3, 11, 7)))


def test_a_step_with_a_cache_does_the_work_of_its_row():
    """Prefill, then steps: in all, the operations of the whole causal sequence."""
    n, prefix = 13, 5
    steps = [attention_flops(1, 35, 5, cached=i) for i in range(prefix, n)]
    start = attention_flops(prefix, 35, 5, pairs=masks.causal.pairs(prefix, prefix))
    assert start + sum(steps) == attention_flops(n, 35, 5, pairs=masks.causal.pairs(n, n))
    chunk = attention_flops(n - prefix, 35, 5, cached=prefix, pairs=masks.causal.pairs(n - prefix, n))
    assert chunk == sum(steps)


@pytest.mark.parametrize("narrow", [None, 13])
def test_latent_flops_are_torchs_count_of_deepseek(narrow):
    module = deepseek.module(narrow)
    expected = counting.flops(lambda: deepseek.run(module, 11))
    assert latent_flops(11, deepseek.D_MODEL, deepseek.HEADS, deepseek.latent(narrow)) == expected


def test_absorbed_flops_are_torchs_count_of_the_products():
    n, cached, sizes, heads, d = 3, 11, deepseek.latent(None), deepseek.HEADS, deepseek.D_MODEL
    x, latents, rotated = torch.zeros(n, d), torch.zeros(cached + n, 7), torch.zeros(cached + n, 4)
    w_k, w_v = torch.zeros(heads, 5, 7), torch.zeros(heads, 7, 11)

    def layer():
        q = (x @ torch.zeros(d, heads * 9)).view(n, heads, 9).transpose(0, 1)
        x @ torch.zeros(d, 7 + 4)  # the new latents and rotated keys
        weights = (q[..., :5] @ w_k) @ latents.T + q[..., 5:] @ rotated.T
        ((weights @ latents) @ w_v).transpose(0, 1).reshape(n, heads * 11) @ torch.zeros(heads * 11, d)

    assert absorbed_flops(n, d, heads, sizes, cached=cached) == counting.flops(layer)


def test_latent_forms_differ_in_what_they_do_for_the_cache():
    """At n = 1 the expanded form makes keys and values of all cached positions anew."""
    sizes, arguments = deepseek.latent(13), (deepseek.D_MODEL, deepseek.HEADS)
    nothing = latent_flops(0, *arguments, sizes), absorbed_flops(0, *arguments, sizes)
    assert nothing == (0, 0)
    expanded, absorbed = (f(1, *arguments, sizes, cached=100, pairs=0) for f in (latent_flops, absorbed_flops))
    assert expanded - absorbed == 2 * 100 * deepseek.HEADS * 7 * (5 + 11)


def test_misfits_are_named():
    with pytest.raises(ValueError, match="num_kv_heads is 7 and num_heads is 6: a key head would have no query"):
        attention_flops(3, 12, 6, num_kv_heads=7)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": -1}, ValueError, "n is -1: expected at least 0"),
        ({"n": 3.0}, TypeError, r"n is 3\.0: expected an integer"),
        ({"n_k": -5}, ValueError, "n_k is -5: expected at least 0"),
        ({"d_model": -12}, ValueError, "d_model is -12: expected at least 1"),
        ({"d_model": 12.0}, TypeError, r"d_model is 12\.0: expected an integer"),
        ({"num_heads": 0}, ValueError, "num_heads is 0: expected at least 1"),
        ({"num_kv_heads": 0}, ValueError, "num_kv_heads is 0: expected at least 1"),
        ({"d_head": -1}, ValueError, "d_head is -1: expected at least 1"),
        ({"pairs": 16}, ValueError, r"pairs is 16: expected at most n · n_k = 15"),
        ({"cached": -1}, ValueError, "cached is -1: expected at least 0"),
        ({"pairs": -1}, ValueError, "pairs is -1: expected at least 0"),
    ],
)
def test_sizes_are_counts(change, error, message):
    arguments = {"n": 3, "d_model": 12, "num_heads": 6, "n_k": 5} | change
    with pytest.raises(error, match=message):
        attention_flops(**arguments)
    if not change.keys() & {"n", "n_k", "cached", "pairs"}:
        with pytest.raises(error, match=message):
            attention_parameters(**{name: x for name, x in arguments.items() if name not in ("n", "n_k")})
