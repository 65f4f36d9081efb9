"""Vectors of distances, picked and not made for each pair, against the reference."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from compare import assert_equal
from mha import reference
from mha.nn import ShawBias, shaw_bias
from nn.layers import draw

B, H, D = 2, 3, 5


@pytest.mark.parametrize("limit", [1, 4, 50])
def test_any_positions(limit):
    q, table = draw(B, H, 4, D), draw(2 * limit + 1, D, seed=1)
    places = torch.tensor([[4, 900, -7, 1], [0, 0, 3, 2]]), torch.tensor([5, 2, 2, 90, -3, 0, 1])
    for scale in (None, 0.3):
        expected = reference.shaw_bias(*(x.numpy() for x in (q, table, *places)), scale=scale)
        assert_equal(shaw_bias(q, table, *places, scale=scale), expected, rtol=1e-13, atol=1e-14)


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that an operation makes."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **kwargs or {})
        for x in made if isinstance(made, tuple) else (made,):
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return made


def test_no_vector_of_a_pair_is_made():
    n, scheme = 31, ShawBias(D, max_distance=4, dtype=torch.float64)
    q, places = draw(1, 1, n, D).requires_grad_(), torch.arange(n)
    with Largest() as largest:
        scheme.content_bias(q, q, places, places).sum().backward()
    assert largest.numel <= n * n


def test_one_set_of_vectors_serves_all_heads():
    scheme = ShawBias(D, max_distance=4)
    assert scheme.weight.shape == (9, D)
    assert repr(scheme) == "ShawBias(5, max_distance=4)"
    with pytest.raises(ValueError, match="max_distance is 0: expected at least 1"):
        ShawBias(D, max_distance=0)
    with pytest.raises(TypeError, match=r"k_positions has dtype torch\.float32: expected integers"):
        scheme.content_bias(torch.ones(1, 2, D), None, torch.arange(2), torch.arange(2.0))
