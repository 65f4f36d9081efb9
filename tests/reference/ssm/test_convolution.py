"""The short causal convolution: against NumPy's, by hand, and what it carries on."""

import numpy as np
import pytest

from compare import assert_equal
from mha.reference import causal_convolution


def draw(n, width=4):
    rng = np.random.default_rng(n)
    return rng.standard_normal((2, 3, n)), rng.standard_normal((3, width)), rng.standard_normal(3)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("n", [0, 1, 3, 11])
def test_equals_the_convolution_of_numpy(n, width):
    x, weight, bias = draw(n, width)
    y, state = causal_convolution(x, weight, bias)
    assert y.shape == x.shape
    assert state.shape == (2, 3, width - 1)
    for b, c in np.ndindex(2, 3):
        expected = np.convolve(x[b, c], weight[c, ::-1])[:n] if n else np.empty(0)
        assert_equal(y[b, c], expected + bias[c], atol=1e-14)


def test_the_last_weight_is_that_of_the_token_itself():
    y, state = causal_convolution(np.array([[1.0, 2.0, 3.0]]), np.array([[10.0, 1.0]]))
    assert_equal(y, np.array([[1.0, 12.0, 23.0]]))
    assert_equal(state, np.array([[3.0]]))


def test_a_state_continues_the_sequence():
    x, weight, bias = draw(11)
    expected, last = causal_convolution(x, weight, bias)
    state, parts = None, []
    for part in (slice(0, 2), slice(2, 2), slice(2, 3), slice(3, 11)):
        y, state = causal_convolution(x[..., part], weight, bias, state=state)
        parts.append(y)
    assert_equal(np.concatenate(parts, -1), expected, atol=1e-14)
    assert_equal(state, last)


def test_misfits_are_named():
    x, weight, bias = draw(5)
    with pytest.raises(ValueError, match=r"weight has shape \(2, 4\): expected \(3, width\)"):
        causal_convolution(x, weight[:2])
    with pytest.raises(ValueError, match=r"bias has shape \(2,\): expected \(3,\)"):
        causal_convolution(x, weight, bias[:2])
    with pytest.raises(ValueError, match=r"state has shape \(2, 3, 2\): expected \(2, 3, 3\), the inputs before"):
        causal_convolution(x, weight, state=np.zeros((2, 3, 2)))
