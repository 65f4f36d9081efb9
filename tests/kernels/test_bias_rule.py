from functools import partial

import pytest
import torch
import triton.language as tl

from compare import assert_equal
from kernels.calls import LAYOUTS
from mha import kernels, masks
from mha.kernels.dot_product.bias_rule import BiasRule, alibi, function_named


def far_keys(at, b, h, i, j, p):
    """Hide keys more than p[0] away, and lift those before by a number of the sample."""
    return tl.where(i - j > at(p[0], 0), float("-inf"), tl.where(j < i, at(p[1], b), 0.0))


def drawn(n_q=19, n_k=35, heads=2, batch=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(batch, heads, n, 8, generator=generator) for n in (n_q, n_k, n_k)]


def test_alibi_is_the_bias_of_the_paper():
    q, k, v = drawn()
    slopes = torch.tensor([0.5, 0.25])
    distances = (torch.arange(16, 35)[:, None] - torch.arange(35)).abs()
    expected = kernels.attention(q, k, v, bias=-slopes[:, None, None] * distances, mask=masks.causal)
    assert_equal(kernels.attention(q, k, v, bias=alibi(slopes), mask=masks.causal), expected, atol=2e-7)


def test_a_rule_goes_by_positions_and_may_hide():
    q, k, v = drawn()
    reach, lift = torch.tensor([7]), torch.tensor([0.3, -2.0])
    i, j = 3 + torch.arange(19)[:, None], torch.arange(35)
    bias = torch.where(i - j > 7, -torch.inf, (j < i) * lift[:, None, None, None])
    k[:, :, :2], v[:, :, 0] = torch.nan, torch.nan  # hidden from the rows behind 8
    expected = kernels.attention_stats(q, k, v, bias=bias, q_start=3)
    found = kernels.attention_stats(q, k, v, bias=BiasRule(far_keys, reach, lift), q_start=3)
    assert_equal(found[0], expected[0], atol=2e-7)
    for one, other in zip(found[1], expected[1], strict=True):
        assert_equal(one, other, atol=2e-6)
    assert found[0][:, :, 6:].isfinite().all()


def test_tables_come_as_they_lie():
    q, k, v = drawn()
    slopes = LAYOUTS["every other"](torch.tensor([[0.5, 0.25]]))[0]
    assert slopes.stride() == (2,)
    assert_equal(kernels.attention(q, k, v, bias=alibi(slopes)), kernels.attention(q, k, v, bias=alibi(slopes.clone())))


def test_a_rule_is_found_again_by_its_name():
    rule = alibi(torch.ones(2))
    assert rule.name == "mha.kernels.dot_product.bias_rule:alibi_bias"
    assert function_named(rule.name) is rule.function


def test_a_rule_for_other_heads_is_refused():
    with pytest.raises(ValueError, match="bias is a BiasRule for 3 heads and q has 2: expected as many"):
        kernels.attention(*drawn(), bias=alibi(torch.ones(3)))


def test_a_table_that_waits_for_a_gradient_is_refused():
    rule = alibi(torch.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match=r"tables\[0\] of the BiasRule requires a gradient, and a rule has none"):
        kernels.attention(*drawn(), bias=rule)
    with torch.no_grad():
        kernels.attention(*drawn(), bias=rule)


def test_a_closure_is_refused():
    reach = 3
    with pytest.raises(ValueError, match="expected one that stands in a module, no closure"):
        BiasRule(lambda at, b, h, i, j, p: i - j + reach)
    with pytest.raises(TypeError, match=r"tables\[0\] is a float: expected a tensor"):
        BiasRule(far_keys, 0.5)


def of_positions_alone(i, j):
    return i - j


def test_what_is_no_rule_is_refused():
    with pytest.raises(TypeError, match="function is a partial: expected a function that stands in a module"):
        BiasRule(partial(far_keys))
    with pytest.raises(TypeError, match="of_positions_alone has 2 arguments: expected at, b, h, i, j, p"):
        BiasRule(of_positions_alone)


def test_slopes_are_one_a_head():
    with pytest.raises(TypeError, match="slopes is a list: expected a torch tensor"):
        alibi([0.5, 0.25])
    for slopes in (torch.ones(()), torch.ones(2, 1)):
        with pytest.raises(ValueError, match=r"slopes has shape .*: expected \(heads,\), one slope per query head"):
            alibi(slopes)
