"""The feed-forward layer by hand, its activations against torch's."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.reference import feed_forward
from mha.reference.mlp import GATED, PLAIN

X = np.random.default_rng(0).standard_normal((2, 5, 7))
THEIRS = {
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": torch.nn.GELU("tanh"),
    "silu": torch.nn.functional.silu,
}


@pytest.mark.parametrize("name", PLAIN)
def test_activations_are_torch_s(name):
    x = np.array([-800.0, -3.0, -0.5, 0.0, 0.5, 3.0, 800.0])
    expected = THEIRS[name](torch.from_numpy(x))
    assert_equal(PLAIN[name](x), expected, rtol=1e-13, atol=1e-15)  # torch's own erfc of large numbers: 2e-16 off


def test_feed_forward_by_hand():
    x, up = np.array([[1.0, -2.0]]), np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 1.0]])
    down = np.array([[2.0, 0.0], [5.0, 0.0], [7.0, 1.0]])
    assert_equal(feed_forward(x, up, down), [[9.0, 1.0]])  # hidden 1, −2, 1: the middle one is cut
    biases = np.array([0.0, 3.0, 0.0]), np.array([1.0, 0.0]), None
    assert_equal(feed_forward(x, up, down, biases=biases), [[15.0, 1.0]])


@pytest.mark.parametrize("name", GATED)
def test_a_gate_multiplies(name):
    rng = np.random.default_rng(1)
    up, gate, down = rng.standard_normal((7, 3)), rng.standard_normal((7, 3)), rng.standard_normal((3, 7))
    expected = (GATED[name](X @ gate) * (X @ up)) @ down
    assert_equal(feed_forward(X, up, down, w_gate=gate, activation=name), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: feed_forward(X, X[0], X[0]), ValueError, r"w_up has shape \(5, 7\): expected \(7, d_out\) for x"),
        (
            lambda: feed_forward(X, np.eye(7), np.eye(7), activation="tanh"),
            ValueError,
            "'tanh': expected one of 'relu'",
        ),
        (lambda: feed_forward(X, np.eye(7), np.eye(7), activation="swiglu"), ValueError, "w_gate is None and activ"),
        (lambda: feed_forward(X, np.eye(7), np.eye(7), w_gate=np.eye(7)), ValueError, "w_gate is given and activation"),
        (lambda: feed_forward(X, np.eye(7), np.eye(7), biases=(None, None)), ValueError, "biases has 2 entries"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
