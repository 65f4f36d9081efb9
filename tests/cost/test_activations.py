"""What is kept for the backward pass, by formula and by torch's hooks, on both paths of `nn.attention`."""

import pytest
import torch

from cost import counting
from mha import nn
from mha.cost import composed_activations, fused_activations

DTYPES = [torch.bfloat16, torch.float32, torch.float64]


def inputs(dtype, groups, d_value):
    shapes = (2, 6, 11, 5), (2, groups, 13, 5), (2, groups, 13, d_value)
    return (torch.ones(shape, dtype=dtype, requires_grad=True) for shape in shapes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("groups", "d_value"), [(6, 5), (2, 7)])
def test_composed_activations_of_nn(dtype, groups, d_value):
    q, k, v = inputs(dtype, groups, d_value)
    kept = counting.kept(lambda: nn.attention(q, k, v, bias=torch.ones(11, 13, dtype=dtype)))
    sizes = {"n_k": 13, "num_kv_heads": groups, "d_value": d_value, "batch": 2}
    assert composed_activations(11, 6, 5, **sizes, itemsize=dtype.itemsize) == kept


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_activations_of_nn(dtype):
    q, k, v = inputs(dtype, 6, 5)
    kept = counting.kept(lambda: nn.attention(q, k, v))
    assert fused_activations(11, 6, 5, n_k=13, batch=2, itemsize=dtype.itemsize) == kept


def test_grouped_heads_by_hand():
    sizes = {"n_k": 13, "num_kv_heads": 2, "d_value": 7}
    assert fused_activations(11, 6, 5, **sizes) == 2 * (6 * 11 * (5 + 7) + 2 * 13 * (5 + 7)) + 4 * 6 * 11


def test_memory_grows_with_the_square_on_one_path_only():
    composed, fused = ([f(n, 8, 64) for n in (2**14, 2**15)] for f in (composed_activations, fused_activations))
    assert 3.9 < composed[1] / composed[0] < 4
    assert fused[1] == 2 * fused[0]
