"""Annotations that lie are noticed, and the hook that notices is on."""

import numpy as np
import pytest

from mha import reference
from shape_annotations import checked, is_shape


def heads(x: "Float[Array, '*b n m']", w: "Float[Array, 'm d']") -> "Float[Array, '*b n d']":
    return x @ w


def swapped(x: "Float[Array, '*b n m']", w: "Float[Array, 'm d']") -> "Float[Array, '*b d n']":
    return x @ w


def pair(x: "Float[Array, '*b n m']") -> "tuple[Float[Array, '*b n'], float]":
    return x.sum(-1), 1.0


X, W = np.ones((2, 3, 5)), np.ones((5, 7))


def test_what_is_true_passes():
    assert checked(heads)(X, W).shape == (2, 3, 7)
    assert checked(pair)(X)[0].shape == (2, 3)


def test_a_wrong_return_is_noticed():
    with pytest.raises(AssertionError, match=r"swapped: return is not Float\[Array, '\*b d n'\]"):
        checked(swapped)(X, W)


def test_a_wrong_kind_is_noticed():
    with pytest.raises(AssertionError, match="heads: x is not Float"):
        checked(heads)(X.astype(int), W)


def test_an_error_of_the_function_comes_first():
    with pytest.raises(ValueError, match="matmul"):
        checked(heads)(X, W.T)


def test_the_hook_is_on():
    assert reference.softmax.__wrapped__
    assert any(map(is_shape, reference.attention.__wrapped__.__annotations__.values()))
