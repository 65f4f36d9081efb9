"""What a state-space layer remembers, as a value."""

import pytest
import torch

from compare import assert_equal
from mha.nn import StateCache


def cache(lengths=5):
    return StateCache(lengths, torch.arange(24.0).view(3, 2, 4), torch.arange(36.0).view(3, 2, 3, 2))


def test_positions():
    assert StateCache().positions(3).tolist() == [0, 1, 2]
    assert StateCache(torch.tensor([0, -2])).positions(2).tolist() == [[0, 1], [-2, -1]]
    assert (StateCache(torch.tensor([2, 2])).lengths, cache(torch.tensor([4, -2, 0])).slots_after(3)) == (2, 7)


@pytest.mark.parametrize("lengths", [5, torch.tensor([4, -2, 0])], ids=["one", "each"])
def test_reorder(lengths):
    chosen = cache(lengths).reorder([2, 0, 0, 1])
    assert chosen.inputs[:, 0, 0].tolist() == [16, 0, 0, 8]
    assert chosen.state[:, 0, 0, 0].tolist() == [24, 0, 0, 12]
    assert_equal(chosen.lengths, 5 if isinstance(lengths, int) else torch.tensor([0, 4, 4, -2]))
    assert StateCache().reorder([0]).state is None


def test_a_state_takes_no_token_back():
    assert cache().crop(5).lengths == 5
    with pytest.raises(ValueError, match="n is 4: expected at least 5, for a state forgets no last tokens"):
        cache().crop(4)


def test_misfits_are_named():
    with pytest.raises(ValueError, match=r"order is \[3\]: expected numbers of samples, 0 to 2"):
        cache().reorder([3])
    assert repr(cache()) == "StateCache(lengths=5, state of shape (3, 2, 3, 2))"
