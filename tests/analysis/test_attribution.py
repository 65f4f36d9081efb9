"""Attributions where the answer is known: linear and quadratic scores, nudged weights, values of length 0."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.analysis import capture, remove_heads, without_heads
from mha.analysis.attribution import (
    gradient_times_input,
    gradient_times_weights,
    integrated_gradients,
    of_embeddings,
    value_norms,
)
from mha.analysis.cores import attention_layers, wrapped_cores
from mha.models.bert import Bert, BertConfig
from mha.models.handmade import InductionModel
from mha.models.llama import Llama, LlamaConfig
from mha.nn import attention_weights
from nn.layers import draw, layer

LLAMA = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
BERT = BertConfig(
    vocab_size=41, num_segments=2, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31, norm_eps=1e-12
)
TOKENS = torch.randint(41, (2, 11), generator=torch.Generator().manual_seed(2))


@pytest.fixture
def llama():
    return redraw(Llama(LLAMA), seed=13, std=0.15).double()


def last(logits):
    return logits[:, -1, 7] - logits[:, -1, 3]


def quadratic(x):
    """x · M x + c · x, over tokens and columns together."""
    flat = x.flatten(1)
    middle, slope = draw(35, 35, seed=4), draw(35, seed=5)
    return torch.einsum("bi,ij,bj->b", flat, middle, flat) + flat @ slope


def test_a_linear_score_is_shared_out_exactly():
    slope, x = draw(5, 7, seed=3), draw(2, 5, 7)
    for found in (
        gradient_times_input(lambda x: (x * slope).sum((1, 2)), x),
        integrated_gradients(lambda x: (x * slope).sum((1, 2)), x, steps=1).attribution,
    ):
        assert_equal(found, (x * slope).sum(-1), rtol=1e-12, atol=1e-12)


def test_integrated_gradients_are_complete_on_a_quadratic_in_one_step():
    x, baseline = draw(2, 5, 7), draw(1, 5, 7, seed=1)
    for start in (None, baseline):
        found = integrated_gradients(quadratic, x, baseline=start, steps=1)
        rise = quadratic(x) - quadratic(torch.zeros_like(x) if start is None else start.expand_as(x))
        assert_equal(found.attribution.sum(-1), rise, rtol=1e-12)
        assert_equal(found.error, torch.zeros(2), atol=1e-12 * float(rise.abs().max()))
    missed = gradient_times_input(quadratic, x).sum(-1) - quadratic(x)
    assert (missed.abs() > 1).all(), "the gradient at the end alone counts the square twice"


def test_the_error_is_that_of_the_integral_and_falls_with_the_steps(llama):
    function, x = of_embeddings(llama, TOKENS, last), llama.embed(TOKENS)
    baseline = llama.embed.weight.mean(0).detach()
    few, many = (integrated_gradients(function, x, baseline=baseline, steps=steps) for steps in (2, 64))
    rise = function(x) - function(baseline.expand_as(x))
    assert_equal(few.error, few.attribution.sum(-1) - rise, rtol=1e-9, atol=1e-12)
    assert (many.error.abs() < 1e-3 * few.error.abs()).all()


def test_a_token_that_is_not_read_gets_nothing():
    model = InductionModel(7, 11)
    tokens = torch.tensor([[0, 3, 5, 1, 3]])
    x = model.embed(tokens)
    found = integrated_gradients(of_embeddings(model, tokens, lambda said: said[:, -1, 5]), x, steps=64)
    assert abs(float(found.error)) < 0.05
    assert_equal(found.attribution[0, 0], 0.0, atol=1e-6)
    assert found.attribution[0, 2] > 0.3, "the 5 that is copied"


@pytest.mark.parametrize(("make", "config"), [(Llama, LLAMA), (Bert, BERT)], ids=["llama", "bert"])
def test_embeddings_in_place_of_tokens(make, config):
    model = redraw(make(config), seed=13).double()
    score = lambda output: output[:, -1, 3]  # noqa: E731
    function = of_embeddings(model, TOKENS, score)
    assert_equal(function(model.embed(TOKENS)), score(model(TOKENS)), rtol=0)
    others = TOKENS.flip(0)
    assert_equal(function(model.embed(others)), score(model(others)), rtol=0)
    assert not model.embed._forward_hooks


def by_nudging(model, tokens, score, place, step=1e-5):
    """The slope of the score in one weight of one head, by a core that adds to it."""
    number, *index = place

    def scored(change):
        def nudged(name, part):
            def core(q, k, v, *, dropout=None, **options):
                weights = attention_weights(q, k, **options)
                if name == list(layers)[number]:
                    weights = weights.clone()
                    weights[tuple(index)] += change
                return weights @ v.repeat_interleave(weights.shape[1] // v.shape[1], dim=1)

            return core

        with torch.no_grad(), wrapped_cores(layers, nudged):
            return score(model(tokens)).sum()

    layers = attention_layers(model, "")
    return (scored(step) - scored(-step)) / (2 * step)


def test_gradients_of_weights_by_finite_differences(llama):
    found = gradient_times_weights(llama, TOKENS, last)
    maps = llama.attention_maps(TOKENS)
    assert found.shape == (3, 2, 6, 11, 11)
    for place in ((0, 0, 0, 10, 3), (1, 1, 4, 7, 2), (2, 0, 5, 10, 10), (2, 1, 3, 10, 0)):
        assert_equal(found[place], maps[place] * by_nudging(llama, TOKENS, last, place), rtol=1e-6, atol=1e-10)
    assert not found[2, :, :, :-1].any(), "in the last layer only the last row is read"


def test_the_weights_of_the_last_layer_say_what_its_heads_add():
    """One layer and a linear score: A · ∂s/∂A summed over keys is what the rows of a head add to the score."""
    module, x = layer(12, 3), draw(2, 5, 12)
    slope = draw(5, 12, seed=9)
    score = lambda output: (output * slope).sum((1, 2))  # noqa: E731
    found = gradient_times_weights(module, x, score)
    assert_equal(found.sum((0, 2, 3, 4)), score(module(x)) - (slope @ module.out_proj.bias).sum(), rtol=1e-11)


def test_dropout_is_refused():
    module = layer(12, 3, dropout=0.5).train()
    with pytest.raises(ValueError, match="expected a model in evaluation mode"):
        gradient_times_weights(module, draw(2, 5, 12), lambda output: output.sum((1, 2)))


def test_a_score_is_a_number_a_sample(llama):
    with pytest.raises(ValueError, match=r"the score has shape \(2, 41\): expected \(2,\)"):
        gradient_times_input(of_embeddings(llama, TOKENS, lambda logits: logits[:, -1]), llama.embed(TOKENS))
    with pytest.raises(ValueError, match="steps is 0: expected at least 1"):
        integrated_gradients(quadratic, draw(2, 5, 7), steps=0)


def test_value_norms_are_the_lengths_of_what_is_written():
    """By loops over heads, queries and keys, for grouped heads behind a mask."""
    module, x = layer(12, 6, num_kv_heads=2, d_head=5), draw(2, 7, 12)
    with capture(module, detach=True) as seen:
        module(x, mask=masks.causal)
    call = seen.calls[0]
    found = value_norms(call)
    weights, v, w_o = (t.detach().numpy() for t in (call.weights, call.v, module.out_proj.weight))
    for b, h, i, j in np.ndindex(2, 6, 7, 7):
        part = w_o[:, 5 * h : 5 * (h + 1)] @ (weights[b, h, i, j] * v[b, h // 3, j])
        assert_equal(found[b, h, i, j].detach(), np.linalg.norm(part), rtol=1e-12, atol=1e-15)


def test_a_value_of_length_zero_has_none():
    model = InductionModel(7, 11)
    with capture(model, detach=True) as seen:
        model(torch.tensor([[0, 3, 5, 1, 3]]))
    found = value_norms(seen.calls[1]).detach()[0]
    assert not found[0].any(), "the idle head"
    assert_equal(found[1, -1], [0, 0, 1, 0, 0], atol=1e-9)


def test_a_gate_is_refused():
    module = layer(12, 3, gate=True)
    with capture(module) as seen:
        module(draw(2, 5, 12))
    with pytest.raises(ValueError, match="has a gate, which changes what is written at each query"):
        value_norms(seen.calls[0])


def test_heads_that_are_silent_are_not_overlooked(llama):
    with without_heads(llama, {(1, 2)}), pytest.raises(ValueError, match=r"'blocks.1.attention' has another core than"):
        gradient_times_weights(llama, TOKENS, last)
    gradient_times_weights(llama, TOKENS, last)


def test_weights_of_pruned_layers(llama):
    heads = {(0, 1), (1, 4), (2, 2)}
    maps = gradient_times_weights(llama, TOKENS, last)
    remove_heads(llama, {(2, 2)})
    with pytest.raises(ValueError, match=r"the layers have \[6, 6, 5\] heads: expected as many in each"):
        gradient_times_weights(llama, TOKENS, last)
    remove_heads(llama, heads - {(2, 2)})
    assert gradient_times_weights(llama, TOKENS, last).shape == (3, 2, 5, *maps.shape[-2:])
