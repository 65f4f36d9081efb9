"""The feed-forward layer is the reference's, whatever bends its hidden numbers."""

import pytest
import torch

from compare import assert_equal
from mha.nn import FeedForward
from mha.nn.mlp import ACTIVATIONS, GATED
from nn.blocks import feed_in_reference, spread
from nn.layers import draw

D_MODEL, D_MLP = 12, 17
X = draw(2, 7, D_MODEL)
EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, *GATED])
def test_feed_forward_equals_the_reference(activation, bias):
    module = spread(FeedForward(D_MODEL, D_MLP, activation=activation, bias=bias))
    assert_equal(module(4 * X), feed_in_reference(module)(4 * X.numpy()), **EXACT)


def test_dropout_acts_on_the_hidden_numbers():
    feed = FeedForward(4, 100, activation="relu", dropout=0.5, dtype=torch.float64).train()
    with torch.no_grad():
        feed.up.weight.zero_(), feed.up.bias.fill_(1.0), feed.down.weight.fill_(1.0)
    torch.manual_seed(0)
    kept = feed(torch.zeros(1, 1, 4, dtype=torch.float64))[0, 0].detach()
    assert float(kept[0]) % 2 == 0
    assert 60 < float(kept[0]) < 140
    assert_equal(feed.eval()(torch.zeros(1, 1, 4, dtype=torch.float64)), torch.full((1, 1, 4), 100.0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FeedForward(12, 0), ValueError, "d_mlp is 0: expected at least 1"),
        (lambda: FeedForward(12, 17, activation="tanh"), ValueError, r"activation is 'tanh': expected one of 'relu'"),
        (lambda: FeedForward(12, 17, dropout=1.0), ValueError, r"dropout is 1.0: expected 0 ≤ dropout < 1"),
        (lambda: FeedForward(12, 17, bias=1), TypeError, "bias is 1: expected True or False"),
        (lambda: FeedForward(12, 17)(X[..., :11].float()), ValueError, r"x has shape \(2, 7, 11\): expected"),
        (lambda: FeedForward(12, 17)(X), TypeError, "x has dtype torch.float64: expected torch.float32"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
