"""Importance scores on models where the right answer is known, and against differences and autograd."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from compare import assert_equal
from exact import redraw
from mha import masks, reference
from mha.analysis import (
    ablation_effects,
    capture,
    entropy_scores,
    mask_gradients,
    normalised_by_layer,
    pruning_order,
    random_scores,
    remove_heads,
    weight_norms,
    without_heads,
)
from mha.analysis.cores import attention_layers
from mha.models.gpt import GPT, GPTConfig
from mha.models.llama import Llama, LlamaConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.nn import MultiHeadAttention
from nn.layers import draw, layer

LLAMA = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
GPT_SIZES = GPTConfig(vocab_size=41, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31)
TOKENS = torch.randint(41, (5, 11), generator=torch.Generator().manual_seed(2))


def losses(model, tokens=TOKENS):
    """The loss of each sequence."""
    return F.cross_entropy(model(tokens)[:, :-1].mT, tokens[:, 1:], reduction="none").mean(-1)


def mean_loss(model):
    return losses(model).mean()


@pytest.fixture(params=[(Llama, LLAMA), (GPT, GPT_SIZES)], ids=["llama", "gpt"])
def model(request):
    make, config = request.param
    return redraw(make(config), seed=13).double()


class Found(torch.nn.Module):
    """A layer whose loss asks for what head 1 of its three found, three times over for example 0."""

    def __init__(self):
        super().__init__()
        self.attention = layer(12, 3, bias=False)
        self.attention.out_proj.weight.data[:, [0, 1, 2, 3, 8, 9, 10, 11]] = 0
        self.target = self.attention(X).detach()

    def losses(self, factor=(3.0, 1.0, 1.0)):
        return (torch.tensor(factor) * (self.attention(X) - self.target).square().sum((-1, -2))).double()


X = draw(3, 7, 12)


def test_a_head_that_does_all_and_heads_that_do_nothing():
    found = Found()
    effects = ablation_effects(found, lambda model: model.losses().mean())
    assert_equal(effects[0, [0, 2]], np.zeros(2))
    alone = (torch.tensor([3.0, 1.0, 1.0]) * found.target.square().sum((-1, -2))).mean()
    assert_equal(effects[0, 1], float(alone), rtol=1e-12)
    norms = weight_norms(found)
    assert_equal(norms[0, [0, 2]], np.zeros(2))
    assert norms[0, 1] > 0.1


def test_the_gradient_is_zero_at_the_best_value_of_a_loss():
    """A mask gradient is a slope: where the loss is least it sees nothing, though all hangs on the head."""
    found = Found()
    assert_equal(mask_gradients(found, lambda model: model.losses())[0], np.zeros(3), atol=1e-12)
    found.target += 1
    assert_equal(mask_gradients(found, lambda model: model.losses())[0, [0, 2]], np.zeros(2))
    assert mask_gradients(found, lambda model: model.losses())[0, 1] > 0.1


def test_ablation_effects_one_by_one(model):
    heads = {(1, 2), (0, 0)}
    effects, whole = ablation_effects(model, mean_loss, heads), float(mean_loss(model).detach())
    for pair in heads:
        with without_heads(model, {pair}), torch.no_grad():
            assert_equal(effects[pair], float(mean_loss(model)) - whole, rtol=1e-9)
    assert np.isnan(effects).sum() == effects.size - 2
    by_name = {([*attention_layers(model, "")][layer], head) for layer, head in heads}
    assert_equal(ablation_effects(model, mean_loss, by_name), effects, rtol=1e-12, label="layers by name")


def with_factors(model, factors, tokens):
    """The losses of a copy whose columns of the output projection are multiplied, a factor a head."""
    other = copy.deepcopy(model)
    layers = [part for part in other.modules() if isinstance(part, MultiHeadAttention)]
    for part, row in zip(layers, factors, strict=True):
        weight = part.out_proj.weight.detach() * row.repeat_interleave(part.d_head)
        del part.out_proj.weight
        part.out_proj.weight = weight
    return losses(other, tokens)


def test_mask_gradients_are_those_of_autograd_by_example(model):
    layers = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    expected = torch.zeros(len(layers), layers[0].num_heads, dtype=torch.float64)
    signed = expected.clone()
    for row in TOKENS:
        ones = torch.ones_like(expected, requires_grad=True)
        (slope,) = torch.autograd.grad(with_factors(model, ones, row[None]).sum(), ones)
        expected += slope.abs() / len(TOKENS)
        signed += slope / len(TOKENS)
    scores = mask_gradients(model, losses)
    assert_equal(scores, expected, rtol=1e-10, atol=1e-12)
    assert np.abs(scores - signed.abs().numpy()).max() > 1e-3, "examples that cancel would show"


def test_mask_gradients_are_differences(model):
    step, scores = 1e-4, mask_gradients(model, losses)
    shape = scores.shape
    for place in ((0, 1), (shape[0] - 1, shape[1] - 1)):
        apart = torch.zeros(shape, dtype=torch.float64)
        apart[place] = step
        with torch.no_grad():
            slope = (with_factors(model, 1 + apart, TOKENS) - with_factors(model, 1 - apart, TOKENS)) / (2 * step)
        assert_equal(scores[place], float(slope.abs().mean()), rtol=1e-5)


def test_mask_gradients_are_the_product_of_the_paper(model):
    """Michel et al. (2019), section 4.1: ∂L/∂ξ = Att · ∂L/∂Att."""
    with capture(model) as seen:
        each = losses(model)
    slopes = torch.autograd.grad(each.sum(), [call.heads for call in seen.calls])
    products = [
        (call.heads * slope).sum((-1, -2)).abs().mean(0) for call, slope in zip(seen.calls, slopes, strict=True)
    ]
    assert_equal(mask_gradients(model, losses), torch.stack(products), rtol=1e-10, atol=1e-12)


def test_mask_gradients_without_parameters_that_learn(model):
    expected = mask_gradients(model, losses)
    model.requires_grad_(False)
    with torch.no_grad():
        assert_equal(mask_gradients(model, losses), expected, label="frozen, under no_grad")
    assert all(parameter.grad is None for parameter in model.parameters())


def test_each_attention_of_a_translator_has_a_row():
    sizes = Seq2SeqConfig(source_vocab=41, target_vocab=43, d_model=12, num_heads=3, num_layers=1, d_mlp=31)
    model = redraw(Seq2Seq(sizes), seed=13).double()

    def by_example(model):
        return F.cross_entropy(model(TOKENS[:, :7], TOKENS[:, 7:-1]).mT, TOKENS[:, 8:], reduction="none").mean(-1)

    effects = ablation_effects(model, lambda model: by_example(model).mean())
    assert effects.shape == mask_gradients(model, by_example).shape == weight_norms(model).shape == (3, 3)
    assert (np.abs(effects) > 1e-6).all()


@pytest.mark.parametrize("n", [2, 11])
def test_entropy_scores_from_even_to_single(n):
    even, single = np.tri(n) / np.arange(1, n + 1)[:, None], np.eye(n)
    scores = entropy_scores(np.stack([even, single]), masks.causal)
    assert_equal(scores, [0.0, np.mean([math.log(i) for i in range(2, n + 1)])], atol=1e-14)
    assert_equal(entropy_scores(np.stack([np.full((n, n), 1 / n), single])), [0.0, math.log(n)], atol=1e-14)


def test_entropy_scores_are_divergences_from_even_weights():
    q, k = np.random.default_rng(0).normal(size=(2, 3, 2, 13, 7))
    mask = masks.causal & masks.window(4, 0)
    weights = reference.attention_weights(q, k, mask=mask)
    see = mask.dense(13, 13)
    expected = np.zeros((3, 2))
    for index in np.ndindex(3, 2):
        rows = [weights[index][i, see[i]] for i in range(1, 13)]
        expected[index] = np.mean([(row * np.log(row * len(row))).sum() for row in rows])
    assert_equal(entropy_scores(weights, mask), expected, rtol=1e-12)
    diffuse_last = np.argsort(-reference.attention_weights(q, k, mask=mask).max(-1).mean(-1).ravel())
    assert np.argsort(entropy_scores(weights, mask).ravel())[0] == diffuse_last[-1]


def test_entropy_scores_of_causal_heads_without_their_mask_move_together():
    q, k = np.random.default_rng(0).normal(size=(2, 5, 13, 7))
    weights = reference.attention_weights(q, k, mask=masks.causal)
    n = 13
    told = np.array([entropy_scores(weights[:, 1:], masks.causal), entropy_scores(weights[:, 1:])])
    assert_equal(told[1] - told[0], np.full(5, np.mean([math.log(n / i) for i in range(2, n + 1)])), rtol=1e-12)


def test_entropy_scores_per_sample():
    q, k = np.random.default_rng(0).normal(size=(2, 2, 3, 7, 5))
    mask = masks.lengths([7, 4])
    weights = reference.attention_weights(q, k, mask=mask)
    short = entropy_scores(weights[1, :, :, :4])
    assert_equal(entropy_scores(weights, mask)[1], short, rtol=1e-12)


def test_weight_norms_are_those_of_the_product(model):
    scores = weight_norms(model)
    layers = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    for number, part in enumerate(layers):
        width, group = part.d_head, part.num_heads // part.num_kv_heads
        for head in range(part.num_heads):
            w_v = part.v_proj.weight[(head // group) * width :][:width].T
            w_o = part.out_proj.weight[:, head * width : (head + 1) * width].T
            assert_equal(scores[number, head], torch.linalg.norm(w_v @ w_o), rtol=1e-12)


def test_weight_norms_see_the_product_and_not_its_factors():
    part = layer(15, 3)
    before, norms = part(draw(2, 5, 15)), weight_norms(part)
    strip = slice(5, 10)
    turn = 7 * torch.linalg.qr(draw(5, 5, seed=3))[0]
    with torch.no_grad():
        part.v_proj.weight[strip] = turn.T @ part.v_proj.weight[strip]
        part.v_proj.bias[strip] = turn.T @ part.v_proj.bias[strip]
        part.out_proj.weight[:, strip] = part.out_proj.weight[:, strip] @ turn / 49
    assert_equal(part(draw(2, 5, 15)), before, rtol=1e-10, atol=1e-12)
    assert_equal(weight_norms(part), norms, rtol=1e-10)
    assert part.v_proj.weight[strip].norm() > 5 * part.v_proj.weight[:5].norm(), "what the norm of W_V alone would say"


def test_random_scores(model):
    first, again = (random_scores(model, np.random.default_rng(5)) for _ in range(2))
    assert_equal(first, again)
    assert first.shape == weight_norms(model).shape
    assert (first != random_scores(model, np.random.default_rng(6))).all()


def test_normalised_by_layer():
    scores = np.array([[3.0, 4.0, np.nan], [0.0, 0.0, 0.0], [300.0, 0.0, 400.0]])
    assert_equal(normalised_by_layer(scores), [[0.6, 0.8, np.nan], [0, 0, 0], [0.6, 0, 0.8]], rtol=1e-14)


def test_pruning_order_leaves_the_best_of_each_layer():
    scores = np.array([[0.1, 0.2, np.nan], [5.0, -1.0, 0.2]])
    assert pruning_order(scores) == [(1, 1), (0, 0), (1, 2)]
    assert pruning_order(scores, spared=0) == [(1, 1), (0, 0), (0, 1), (1, 2), (1, 0)]
    assert pruning_order(scores, spared=2) == [(1, 1)]
    assert pruning_order(scores, spared=7) == []


def test_scores_of_a_pruned_model_keep_the_first_numbers(model):
    gone = {(0, 1), (1, 0)}
    whole = weight_norms(model)
    with without_heads(model, gone):
        masked = mask_gradients(model, losses), ablation_effects(model, mean_loss, {(0, 2), (1, 1)})
    remove_heads(model, gone)
    pruned = mask_gradients(model, losses), ablation_effects(model, mean_loss, {(0, 2), (1, 1)})
    left = np.ones(whole.shape, bool)
    left[tuple(zip(*gone, strict=True))] = False
    assert_equal(weight_norms(model), np.where(left, whole, np.nan), rtol=1e-12)
    for of_masked, of_pruned in zip(masked, pruned, strict=True):
        assert_equal(of_pruned, np.where(left, of_masked, np.nan), rtol=1e-9, atol=1e-12)
    assert (np.isnan(random_scores(model, np.random.default_rng(0))) == ~left).all()
    assert not gone & set(pruning_order(pruned[0], spared=0))
    refused("gone", ablation_effects, model, mean_loss, gone)


def refused(message, call, *arguments, **options):
    with pytest.raises((ValueError, TypeError), match=message):
        call(*arguments, **options)


def test_what_is_refused(model):
    nothing = torch.nn.Linear(3, 3)
    for score in (weight_norms, lambda m: random_scores(m, np.random.default_rng(0))):
        refused("without a MultiHeadAttention", score, nothing)
    refused("without a MultiHeadAttention", ablation_effects, nothing, mean_loss)
    refused("without a MultiHeadAttention", mask_gradients, nothing, losses)
    refused("expected 0 … ", ablation_effects, model, mean_loss, {(0, 17)})
    refused(r"expected a tensor \(batch,\)", mask_gradients, model, mean_loss)
    refused("float", mask_gradients, model, lambda model: mean_loss(model).item())
    refused("5 losses of a pass over", mask_gradients, model, lambda m: losses(m) + 0 * losses(m, TOKENS[:1]))
    weights = np.full((3, 7, 7), 1 / 7)
    refused("mask hides", entropy_scores, weights, masks.causal)
    refused("without a row that sees two keys", entropy_scores, np.ones((3, 7, 1)))
    refused("negative", entropy_scores, -weights)
    refused(r"expected \(layers, heads\)", pruning_order, np.zeros(5))
    refused("spared", pruning_order, np.zeros((2, 3)), spared=-1)
