"""Another library's option is refused with ours, on every floor; other errors pass as they are."""

import numpy as np
import pytest
import torch

import mha
from mha import nn, reference
from mha.options import OURS

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
