"""Scores on tensors, functions and Modules, against the reference."""

import pytest
import torch

from compare import assert_equal
from mha import nn, reference
from nn.layers import draw

Q, K = draw(2, 4, 3), draw(2, 11, 5, seed=1)


def numbers(*given):
    return [x.detach().numpy() for x in given]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("additive_scores", (Q, K, draw(3, 7, seed=2), draw(5, 7, seed=3), draw(7, seed=4))),
        ("dot_scores", (Q, K[..., :3])),
        ("general_scores", (Q, K, draw(3, 5, seed=2))),
        ("concat_scores", (Q, K, draw(8, 7, seed=2), draw(7, seed=4))),
    ],
)
def test_equals_the_reference(name, given):
    assert_equal(getattr(nn, name)(*given), getattr(reference, name)(*numbers(*given)), atol=1e-12)


def test_modules_call_the_functions():
    for score in (nn.AdditiveScore(3, 5, 7).double(), nn.ConcatScore(3, 5, 7).double()):
        w, u, v = numbers(score.q_proj.weight.T, score.k_proj.weight.T, score.combine.weight[0])
        assert_equal(score(Q, score.keys(K)), reference.additive_scores(*numbers(Q, K), w, u, v), atol=1e-12)
    general, dot = nn.GeneralScore(3, 5).double(), nn.DotScore()
    (w,) = numbers(general.k_proj.weight)
    assert_equal(general(Q, general.keys(K)), reference.general_scores(*numbers(Q, K), w), atol=1e-12)
    assert_equal(dot(Q, dot.keys(K[..., :3])), reference.dot_scores(*numbers(Q, K[..., :3])), atol=1e-12)


def test_parameters():
    def count(score):
        return sum(parameter.numel() for parameter in score.parameters())

    assert count(nn.AdditiveScore(3, 5, 7)) == (3 + 5) * 7 + 7
    assert count(nn.GeneralScore(3, 5)) == 3 * 5
    assert count(nn.DotScore()) == 0


def test_faults_are_named():
    with pytest.raises(ValueError, match=r"k has width 5 and q has width 3: .* general_scores"):
        nn.dot_scores(Q, K)
    with pytest.raises(TypeError, match="q is a NumPy array: expected a torch tensor"):
        nn.dot_scores(Q.numpy(), K)
    with pytest.raises(ValueError, match=r"w has shape \(5, 3\): expected \(3, d_out\)"):
        nn.general_scores(Q, K, torch.zeros(5, 3))
    with pytest.raises(ValueError, match="d_hidden is 0"):
        nn.AdditiveScore(3, 5, 0)
