"""Weights and context vectors on tensors against the reference; the layer that owns the parameters."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import masks, nn, reference
from nn.layers import draw

KEEP = np.arange(11) < np.array([11, 6])[:, None]
SEE = np.random.default_rng(4).random((4, 11)) > 0.5
SEE[1] = False
CENTERS = np.array([[0.0, 3.4, 10.9, 25.0], [0.2, 2.0, 5.9, 4.5]])
OPTIONS = {
    "nothing": {},
    "padding": {"mask": masks.key_padding(KEEP)},
    "window": {"mask": masks.window(2, 2) & masks.key_padding(KEEP), "q_start": 0},
    "bool": {"mask": SEE},
    "local": {"centers": CENTERS, "window": 2.5},
    "local, padding": {"mask": masks.key_padding(KEEP), "centers": CENTERS, "window": 3},
    "local, moved": {"centers": CENTERS, "window": 3, "k_positions": np.arange(11) - 2},
}


def tensors(n_q=4, n_k=11):
    rows = draw(2, n_q, 3), draw(2, n_k, 5, seed=1), draw(2, n_k, 2, seed=2)
    return rows, (draw(3, 7, seed=3), draw(5, 7, seed=4), draw(7, seed=5))


def numbers(*given):
    return [x.numpy() for x in given]


def in_torch(options):
    return {key: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for key, x in options.items()}


def additive(floor, parameters):
    return lambda q, k: floor.additive_scores(q, k, *parameters)


def assert_both_floors_agree(lengths, options):
    rows, parameters = tensors(*lengths)
    scores = {"score": additive(reference, numbers(*parameters))}
    expected = reference.context_vectors(*numbers(*rows), **scores, **options)
    expected_weights = reference.alignment_weights(*numbers(*rows[:2]), **scores, **options)
    scores = {"score": additive(nn, parameters)}
    assert_equal(nn.context_vectors(*rows, **scores, **in_torch(options)), expected, atol=1e-12)
    assert_equal(nn.alignment_weights(*rows[:2], **scores, **in_torch(options)), expected_weights, atol=1e-13)


@pytest.mark.parametrize("name", OPTIONS)
def test_equals_the_reference(name):
    assert_both_floors_agree((4, 11), OPTIONS[name])


@pytest.mark.parametrize("lengths", [(4, 0), (0, 11), (1, 1)], ids=str)
def test_short_sequences(lengths):
    assert_both_floors_agree(lengths, {})
    assert_both_floors_agree(lengths, {"mask": masks.window(2, 2)})


@pytest.mark.parametrize("name", ["padding", "local, padding"])
def test_hidden_positions_may_hold_anything(name):
    (q, k, v), parameters = tensors()
    options = {"score": additive(nn, parameters)} | in_torch(OPTIONS[name])
    expected = nn.context_vectors(q, k, v, **options)
    k[1, 6:], v[1, 6:] = torch.nan, torch.inf
    leaves = [x.requires_grad_() for x in (q, k, v)]
    found = nn.context_vectors(*leaves, **options)
    assert_equal(found, expected)
    for gradient in torch.autograd.grad(found.sum(), leaves):
        assert gradient.isfinite().all()


def test_a_nan_acts_on_the_rows_that_see_it():
    (q, k, v), parameters = tensors()
    k[:, 7] = torch.nan
    options = {"score": additive(nn, parameters), "mask": masks.window(3, 3), "q_start": 2}
    assert_equal(nn.context_vectors(q, k, v, **options).isnan().any(-1), [[False, False, True, True]] * 2)


def test_gradients():
    (q, k, v), parameters = tensors(3, 4)
    leaves = [x[:1].clone().requires_grad_() for x in (q, k, v)]
    leaves += [x[..., :2].clone().requires_grad_() for x in parameters]
    centers = (q[:1, :, 0] + 2).clone().requires_grad_()

    def contexts(q, k, v, w_q, w_k, combine, centers):
        options = {"score": additive(nn, (w_q, w_k, combine)), "centers": centers, "window": 2.0}
        return nn.context_vectors(q, k, v, mask=torch.tensor([[True] * 4, [False] * 4, [True, False] * 2]), **options)

    assert gradcheck(contexts, (*leaves, centers))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logits_are_at_least_float32(dtype):
    (q, k, v), _ = tensors()
    half = [x.to(dtype) for x in (q, k[..., :3], v)]
    expected = nn.context_vectors(*(x.float() for x in half), score=nn.dot_scores)
    with torch.autocast("cpu", torch.bfloat16):
        found = nn.context_vectors(*half, score=nn.dot_scores)
    assert found.dtype == dtype
    assert_equal(found.float(), expected, atol=torch.finfo(dtype).eps * float(expected.abs().max()))


def layer(score, **local):
    made = nn.Alignment(score, **local).double()
    for seed, parameter in enumerate(made.parameters()):
        parameter.data = draw(*parameter.shape, seed=10 + seed)
    return made


def test_a_layer_is_the_functions():
    (q, k, _), _ = tensors()
    predictor = nn.CenterPredictor(3, 7)
    module, lengths = layer(nn.AdditiveScore(3, 5, 7), predictor=predictor, window=2), torch.tensor([11, 6])
    mask = masks.key_padding(torch.from_numpy(KEEP))
    score = module.score
    parameters = numbers(
        score.q_proj.weight.T.detach(), score.k_proj.weight.T.detach(), score.combine.weight[0].detach()
    )
    given = numbers(predictor.proj.weight.T.detach(), predictor.combine.weight[0].detach())
    centers = reference.predicted_centers(q.numpy(), *given, np.array([11, 6]))
    options = {"centers": centers, "window": 2, "mask": masks.key_padding(KEEP)}
    options["score"] = partial(_in_reference, parameters)
    expected = reference.context_vectors(q.numpy(), k.numpy(), k.numpy(), **options)
    assert_equal(module(q, k, mask=mask, lengths=lengths), expected, atol=1e-12)
    assert_equal(module(q, k, mask=mask, lengths=lengths, keys=score.keys(k)), expected, atol=1e-12)
    expected = reference.alignment_weights(q.numpy(), k.numpy(), **options)
    assert_equal(module.weights(q, k, mask=mask, lengths=lengths), expected, atol=1e-12)


def _in_reference(parameters, q, k):
    return reference.additive_scores(q, k, *parameters)


def test_hidden_keys_do_not_reach_the_parameters():
    (q, k, _), _ = tensors()
    module, mask = layer(nn.AdditiveScore(3, 5, 7)), masks.key_padding(torch.from_numpy(KEEP))
    k[1, 6:] = torch.nan
    module(q, k, mask=mask).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def test_a_predictor_needs_a_window():
    with pytest.raises(ValueError, match="window is 3 and predictor is None: expected both, or neither"):
        nn.Alignment(nn.DotScore(), window=3)
    with pytest.raises(ValueError, match="window is 0: expected a positive number"):
        nn.Alignment(nn.DotScore(), predictor=nn.CenterPredictor(3, 7), window=0)
