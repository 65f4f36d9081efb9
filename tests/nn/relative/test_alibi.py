"""ALiBi's slopes and bias against the reference, in any precision."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import Alibi, alibi_bias, alibi_slopes
from nn.layers import draw, layer


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6, 8, 12, 23, 64, 71])
def test_slopes(num_heads):
    assert_equal(alibi_slopes(num_heads, dtype=torch.float64), reference.alibi_slopes(num_heads), rtol=1e-15)
    assert alibi_slopes(num_heads).dtype is torch.float32


def test_any_positions():
    slopes = alibi_slopes(3, dtype=torch.float64)
    at_q, at_k = torch.tensor([[4, 900], [-7, 1]]), torch.arange(7, dtype=torch.uint8)
    expected = reference.alibi_bias(slopes.numpy(), at_q.numpy(), at_k.numpy())
    assert_equal(alibi_bias(slopes, at_q, at_k), expected)
    assert_equal(Alibi(3).bias(at_q, at_k), expected)


def test_bfloat16_keeps_distances_apart():
    """In bfloat16 there is no number between 256 and 258: the bias stays in the precision of the scores."""
    module, n = layer(6, 3, position=Alibi(3), dtype=torch.bfloat16), 301
    for linear in (module.q_proj, module.k_proj):
        torch.nn.init.zeros_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
    weights = module.weights(draw(1, n, 6, dtype=torch.bfloat16), mask=masks.causal)[0]
    slopes, back = reference.alibi_slopes(3)[:, None], np.arange(n)[::-1]
    expected = reference.softmax(-slopes * back)
    assert_equal(weights[:, -1].float(), expected, rtol=2.0**-7, atol=1e-38)


def test_no_heads():
    with pytest.raises(ValueError, match="num_heads is 0: expected at least 1"):
        Alibi(0)
