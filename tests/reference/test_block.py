"""Norms, the feed-forward layer and blocks by hand, and what they may not be given."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.reference import decoder_block, encoder_block, feed_forward, layer_norm, residual
from mha.reference.block import GATED, PLAIN

X = np.random.default_rng(0).standard_normal((2, 5, 7))
THEIRS = {
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": torch.nn.GELU("tanh"),
    "silu": torch.nn.functional.silu,
}


def test_layer_norm_by_hand():
    """2, 4, 6, 12 has the mean 6 and the variance (16 + 4 + 0 + 36) / 4 = 14."""
    x = np.array([2.0, 4.0, 6.0, 12.0])
    assert_equal(layer_norm(x, eps=0.0), np.array([-4, -2, 0, 6]) / 14**0.5, rtol=1e-15)
    assert_equal(layer_norm(x, eps=2.0), np.array([-4, -2, 0, 6]) / 4, rtol=1e-15)
    gain, bias = np.array([1.0, 3.0, 5.0, 2.0]), np.array([0.5, 0.0, 7.0, 1.0])
    assert_equal(layer_norm(x, gain, bias, eps=2.0), [-0.5, -1.5, 7.0, 4.0], rtol=1e-15)


def test_layer_norm_is_torch_s():
    gain, bias = X[0, 0], X[1, 1]
    expected = torch.nn.functional.layer_norm(*map(torch.from_numpy, (X,)), (7,), *map(torch.from_numpy, (gain, bias)))
    assert_equal(layer_norm(X, gain, bias), expected, atol=1e-14)
    assert_equal(layer_norm(X.astype(np.float32)).dtype.itemsize, 8, label="computed in float64")


def test_layer_norm_does_not_see_a_shift_or_a_size():
    assert_equal(layer_norm(1000 * X + 3, eps=0.0), layer_norm(X, eps=0.0), atol=1e-11)
    assert_equal(layer_norm(np.full((1, 3), 5.0)), np.zeros((1, 3)), label="a constant row")


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


def test_residual_in_both_orders():
    """From the stream 3, with a layer that adds 1 and a norm that doubles: 3 + (6 + 1), or 2 · (3 + 4)."""
    x = np.full((1, 1), 3.0)
    layer, norm = lambda x: x + 1, lambda x: 2 * x
    assert_equal(residual(x, layer, norm), [[10.0]])
    assert_equal(residual(x, layer, norm, norm_first=False), [[14.0]])


def test_blocks_in_their_order():
    x, memory = np.full((1, 1), 3.0), np.full((2, 1), 5.0)
    double, half, same = (lambda x: 2 * x), (lambda x: x / 2), (lambda x: x)
    norms = same, double
    # pre-norm: 3 + 6 = 9, then 9 + 18/2 = 18; post-norm: 3 + 6 = 9, then 2 · (9 + 4.5) = 27
    assert_equal(encoder_block(x, double, half, norms=norms), [[18.0]])
    assert_equal(encoder_block(x, double, half, norms=norms, norm_first=False), [[27.0]])
    cross = lambda x, memory: x + memory.sum()  # noqa: E731
    # pre-norm: 9, then 9 + (18 + 10) = 37, then 37 + 37/2 = 55.5
    assert_equal(decoder_block(x, memory, double, cross, half, norms=(same, double, same)), [[55.5]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: layer_norm(X, np.ones(5)), ValueError, r"gain has shape \(5,\): expected \(7,\)"),
        (lambda: layer_norm(X, None, np.ones(5)), ValueError, r"bias has shape \(5,\): expected \(7,\)"),
        (lambda: layer_norm(X > 0), TypeError, "x has dtype bool: expected floating point"),
        (lambda: feed_forward(X, X[0], X[0]), ValueError, r"w_up has shape \(5, 7\): expected \(7, d_out\) for x"),
        (
            lambda: feed_forward(X, np.eye(7), np.eye(7), activation="tanh"),
            ValueError,
            "'tanh': expected one of 'relu'",
        ),
        (lambda: feed_forward(X, np.eye(7), np.eye(7), activation="swiglu"), ValueError, "w_gate is None and activ"),
        (lambda: feed_forward(X, np.eye(7), np.eye(7), w_gate=np.eye(7)), ValueError, "w_gate is given and activation"),
        (lambda: feed_forward(X, np.eye(7), np.eye(7), biases=(None, None)), ValueError, "biases has 2 entries"),
        (lambda: residual(X, lambda x: x[:1], abs), ValueError, r"what the layer returns has shape \(1, 5, 7\)"),
        (lambda: residual(X[0, 0], abs, abs), ValueError, r"x has shape \(7,\): expected \(…, length, width\)"),
        (lambda: encoder_block(X, abs, abs, norms=(abs,)), ValueError, "norms has 1 entries: expected 2 functions"),
        (lambda: decoder_block(X, X, abs, abs, abs, norms=abs), ValueError, "norms is a builtin_function_or_method"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
