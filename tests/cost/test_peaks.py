"""What a call holds at once, by formula and by the life of every tensor that torch makes."""

import pytest
import torch

from cost import counting
from mha import nn
from mha.cost import composed_peak, fused_peak

SIZES = [(11, 13, 5, 7), (13, 11, 3, 3), (3, 2, 17, 5), (1, 1, 5, 7), (0, 3, 5, 5)]  # n, n_k, d_head, d_value


def composed(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v


def held(function, n, n_k, d_head, d_value, gradients, dtype=torch.float32):
    """Return the peak of a call on a batch of 2 with 3 heads."""
    shapes = (2, 3, n, d_head), (2, 3, n_k, d_head), (2, 3, n_k, d_value)
    inputs = [torch.ones(shape, dtype=dtype, requires_grad=gradients) for shape in shapes]

    def run():
        out = function(*inputs)
        if gradients:
            torch.autograd.grad(out, inputs, torch.ones_like(out))

    return counting.peak(run)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("sizes", SIZES)
def test_composed_peak_of_torchs_operators(sizes, dtype, gradients):
    n, n_k, d_head, d_value = sizes
    options = {"n_k": n_k, "d_value": d_value, "batch": 2, "itemsize": dtype.itemsize, "gradients": gradients}
    assert composed_peak(n, 3, d_head, **options) == held(composed, *sizes, gradients, dtype)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("n", "n_k"), [(11, 13), (13, 11), (1, 7)])
def test_fused_peak_of_torchs_operator(n, n_k, dtype, gradients):
    options = {"n_k": n_k, "batch": 2, "itemsize": dtype.itemsize, "gradients": gradients}
    fused = torch.nn.functional.scaled_dot_product_attention
    assert fused_peak(n, 3, 5, **options) == held(fused, n, n_k, 5, 5, gradients, dtype)


@pytest.mark.parametrize("gradients", [False, True])
def test_nn_attention_holds_no_square(gradients):
    assert held(nn.attention, 64, 64, 8, 8, gradients) == fused_peak(64, 3, 8, batch=2, itemsize=4, gradients=gradients)


def test_by_hand():
    """A head of 4 queries and keys, width 2, 4 bytes: squares of 64 bytes, tensors of 32, and 4 sums of 4 bytes."""
    assert composed_peak(4, 1, 2, itemsize=4) == 2 * 64
    assert composed_peak(4, 1, 2, itemsize=4, gradients=True) == 3 * 64 + 3 * 32
    assert fused_peak(4, 1, 2, itemsize=4) == 32 + 16
    assert fused_peak(4, 1, 2, itemsize=4, gradients=True) == 5 * 32 + 16


def test_grouped_heads_have_gradients_of_their_own_size():
    whole, grouped = (fused_peak(7, 6, 5, num_kv_heads=g, itemsize=2, gradients=True) for g in (6, 2))
    assert whole - grouped == 2 * 2 * 4 * 7 * 5


@pytest.mark.parametrize("peak", [composed_peak, fused_peak])
@pytest.mark.parametrize(
    ("change", "message"),
    [({"n": -1}, "n is -1: expected at least 0"), ({"itemsize": 0}, "itemsize is 0: expected at least 1")],
    ids=["length", "itemsize"],
)
def test_sizes_are_counts(peak, change, message):
    with pytest.raises(ValueError, match=message):
        peak(**{"n": 3, "num_heads": 2, "d_head": 5} | change)
