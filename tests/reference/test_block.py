"""Blocks by hand: in which order layers and norms act, and what a block may not be given."""

import numpy as np
import pytest

from compare import assert_equal
from mha.reference import decoder_block, encoder_block, residual

X = np.random.default_rng(0).standard_normal((2, 5, 7))


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
        (lambda: residual(X, lambda x: x[:1], abs), ValueError, r"what the layer returns has shape \(1, 5, 7\)"),
        (lambda: residual(X[0, 0], abs, abs), ValueError, r"x has shape \(7,\): expected \(…, length, width\)"),
        (lambda: encoder_block(X, abs, abs, norms=(abs,)), ValueError, "norms has 1 entries: expected 2 functions"),
        (lambda: decoder_block(X, X, abs, abs, abs, norms=abs), ValueError, "norms is a builtin_function_or_method"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
