"""What a layer refuses when it is built or called, by name: nothing waits for torch to stumble over it."""

import math

import numpy as np
import pytest
import torch

from mha.nn import (
    MultiHeadAttention,
    Rotary,
    attention,
    attention_stats,
    attention_weights,
    join_heads,
    rotate,
    split_heads,
)

GOOD = {"d_model": 12, "num_heads": 4}
BUILT = [
    ({"d_model": 0}, ValueError, "d_model is 0: expected at least 1"),
    ({"d_model": -8}, ValueError, "d_model is -8"),
    ({"d_model": 12.0}, TypeError, "d_model is 12.0: expected an integer"),
    ({"d_model": None}, TypeError, "d_model is None"),
    ({"num_heads": 0}, ValueError, "num_heads is 0: expected at least 1"),
    ({"num_heads": "4"}, TypeError, "num_heads is '4'"),
    ({"num_heads": True}, TypeError, "num_heads is True"),
    ({"num_kv_heads": 3}, ValueError, "num_kv_heads is 3 and num_heads is 4: query heads must be a multiple"),
    ({"num_kv_heads": 0}, ValueError, "num_kv_heads is 0"),
    ({"d_head": 0}, ValueError, "d_head is 0"),
    ({"d_head": -2}, ValueError, "d_head is -2"),
    ({"d_key_in": 1.5}, TypeError, "d_key_in is 1.5"),
    ({"d_value_in": 0}, ValueError, "d_value_in is 0"),
    ({"d_head": 3, "position": Rotary()}, ValueError, "d_head is 3: expected an even width"),
    ({"position": "rope"}, TypeError, "position is 'rope': expected an object with rotate"),
    ({"position": Rotary}, TypeError, "position is <class"),
    ({"scale": "x"}, TypeError, "scale is 'x': expected a number"),
    ({"scale": math.nan}, ValueError, "scale is nan: expected a finite number"),
    ({"softcap": -1}, ValueError, "softcap is -1: expected a positive number"),
    ({"softcap": 0}, ValueError, "softcap is 0"),
    ({"softcap": "x"}, TypeError, "softcap is 'x'"),
    ({"dropout": 1.0}, ValueError, r"dropout is 1\.0: expected 0 ≤ dropout < 1"),
    ({"dropout": None}, TypeError, "dropout is None"),
    ({"bias": "no"}, TypeError, "bias is 'no': expected True or False"),
    ({"core": "flash"}, TypeError, "core is 'flash': expected a function"),
    ({"core": None}, TypeError, "core is None"),
    ({"dtype": torch.int64}, TypeError, "dtype is torch.int64: expected a floating-point dtype"),
]


@pytest.mark.parametrize(("change", "error", "words"), BUILT, ids=str)
def test_a_layer_that_cannot_be_built(change, error, words):
    with pytest.raises(error, match=words):
        MultiHeadAttention(**GOOD | change)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"base": -1}, ValueError, "base is -1: expected a positive number"),
        ({"base": "a"}, TypeError, "base is 'a': expected a number"),
        ({"base": math.inf}, ValueError, "base is inf: expected a finite number"),
        ({"layout": "x"}, ValueError, "layout is 'x': expected 'half'"),
    ],
    ids=str,
)
def test_rotary_that_cannot_turn(options, error, words):
    with pytest.raises(error, match=words):
        Rotary(**options)
    with pytest.raises(error, match=words):
        rotate(torch.zeros(1, 1, 3, 4), torch.arange(3), **options)


@pytest.mark.parametrize("positions", [torch.arange(3.0), torch.full((3,), math.nan), torch.ones(3, dtype=torch.bool)])
def test_positions_are_integers(positions):
    with pytest.raises(TypeError, match="positions has dtype"):
        rotate(torch.zeros(1, 1, 3, 4), positions)


ARRAY, TENSOR = np.zeros((1, 2, 3, 4)), torch.zeros(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: attention(ARRAY, ARRAY, ARRAY), "q"),
        (lambda: attention(TENSOR, TENSOR, ARRAY), "v"),
        (lambda: attention_weights(TENSOR, ARRAY), "k"),
        (lambda: attention_stats(ARRAY, TENSOR, TENSOR), "q"),
        (lambda: split_heads(ARRAY, 2), "x"),
        (lambda: join_heads(ARRAY), "x"),
        (lambda: rotate(ARRAY, torch.arange(3)), "x"),
        (lambda: MultiHeadAttention(4, 2)(ARRAY[0]), "x"),
        (lambda: MultiHeadAttention(4, 2)(TENSOR[0], ARRAY[0]), "context"),
    ],
)
def test_arrays_belong_to_the_reference(call, name):
    with pytest.raises(TypeError, match=f"^{name} is a NumPy array: expected a torch tensor"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: attention(TENSOR, TENSOR, None), TypeError, "v is None"),
        (lambda: split_heads(TENSOR, 2.0), TypeError, r"num_heads is 2\.0: expected an integer"),
        (lambda: split_heads(TENSOR[0, 0, 0], 2), ValueError, r"x has shape \(4,\): expected"),
        (lambda: join_heads(TENSOR[0, 0]), ValueError, r"x has shape \(3, 4\): expected"),
        (
            lambda: MultiHeadAttention(4, 2)(TENSOR[0].double()),
            TypeError,
            "x has dtype torch.float64: expected torch.fl",
        ),
        (lambda: MultiHeadAttention(4, 2)(TENSOR[0], (TENSOR[0],)), ValueError, "context is a tuple of 1"),
        (lambda: MultiHeadAttention.from_torch(torch.nn.Linear(2, 2)), TypeError, "module is a Linear: expected torch"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words.replace("expected torch", "expected (a )?torch")):
        call()


def test_autocast_may_mix_dtypes():
    layer = MultiHeadAttention(4, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(TENSOR[0].bfloat16()).dtype == torch.bfloat16
