"""Influence where the derivative is known: a matrix, a mixture of rows, a chain of layers with a window."""

import pytest
import torch

from compare import assert_equal
from mha import masks, nn
from mha.analysis.reach import influence


def linear(parts):
    """Return inputs and the one row that is the sum of each of their rows through a matrix of its own."""
    x = torch.randn(len(parts), parts[0].shape[1], dtype=torch.float64, requires_grad=True)
    return x, sum(part @ row for part, row in zip(parts, x, strict=True))


def test_of_a_linear_map_it_is_the_length_of_the_matrix():
    torch.manual_seed(0)
    parts = [scale * torch.randn(5, 3, dtype=torch.float64) for scale in (1.0, 0.0, 7.0)]
    x, y = linear(parts)
    lengths = torch.stack([torch.linalg.norm(part) for part in parts])
    assert_equal(influence(y, x, draws=None), lengths, rtol=1e-12)


def test_random_directions_come_close():
    torch.manual_seed(1)
    parts = [torch.randn(11, 7, dtype=torch.float64) for _ in range(3)]
    x, y = linear(parts)
    found = influence(y, x, draws=2000, generator=torch.Generator().manual_seed(0))
    assert_equal(found, influence(y, x, draws=None), rtol=0.05)


def test_layers_of_windows_reach_their_sum_and_no_further():
    torch.manual_seed(2)
    x = torch.randn(1, 23, 8, dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(3):
        y = nn.MultiHeadAttention(8, 2, dtype=torch.float64)(y, mask=masks.window_of(5))
    found = influence(y[0, -1], x, draws=None)[0]
    assert (found[: 22 - 3 * 4] == 0).all()
    assert (found[22 - 3 * 4 :] > 0).all()


@pytest.mark.parametrize(("shape", "draws", "message"), [((1, 3), 2, "output has shape"), ((3,), 0, "draws is 0")])
def test_one_row_and_some_directions(shape, draws, message):
    x = torch.ones(shape, requires_grad=True)
    with pytest.raises(ValueError, match=message):
        influence(2 * x, x, draws=draws)
