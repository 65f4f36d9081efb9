"""Another library's option is refused with ours, on every floor; other errors pass as they are."""

import numpy as np
import pytest
import torch

import mha
from mha import nn, reference
from mha.options import LAYER, OURS

ARRAYS = [np.zeros((1, 2, 3, 4))] * 3
TENSORS = [torch.zeros(1, 2, 3, 4)] * 3
CALLS = [
    (mha.attention, ARRAYS),
    (mha.attention, TENSORS),
    (mha.which, TENSORS),
    (reference.attention, ARRAYS),
    (reference.attention_weights, ARRAYS[:2]),
    (reference.attention_stats, ARRAYS),
    (nn.attention, TENSORS),
    (nn.attention_weights, TENSORS[:2]),
    (nn.attention_stats, TENSORS),
]


@pytest.mark.parametrize(("function", "tensors"), CALLS, ids=lambda x: getattr(x, "__qualname__", ""))
@pytest.mark.parametrize("name", OURS)
def test_the_answer_names_our_option(function, tensors, name):
    with pytest.raises(TypeError, match=f"has no option {name}: ") as refusal:
        function(*tensors, **{name: True})
    assert OURS[name] in str(refusal.value)


@pytest.mark.parametrize(("function", "tensors"), CALLS, ids=lambda x: getattr(x, "__qualname__", ""))
def test_other_errors_stay_what_they_are(function, tensors):
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        function(*tensors, nonsense=True)
    with pytest.raises(TypeError, match="softcap is a str"):
        function(*tensors, softcap="x")


@pytest.mark.parametrize("name", LAYER)
def test_a_layer_names_its_own(name):
    layer = nn.MultiHeadAttention(6, 2)
    with pytest.raises(TypeError, match=f"forward has no option {name}: ") as refusal:
        layer(torch.zeros(1, 3, 6), **{name: True})
    assert LAYER[name] in str(refusal.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        layer(torch.zeros(1, 3, 6), nonsense=True)
