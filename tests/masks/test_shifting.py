"""A mask moved along the sequence."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks
from mha.masks import causal, lengths, prefix, shifted, window2d

COUNTED = [
    prefix(3),
    ~prefix(2),
    masks.global_tokens([0, 4]),
    masks.fixed(3, 1),
    masks.random_blocks(1, 12, block=2, number=3),
    window2d((3, 4), 1),
    masks.shifted_window2d((3, 4), 2, 1),
    causal | prefix(4),
    masks.per_head([prefix(1), causal]),
]


@pytest.mark.parametrize("mask", COUNTED, ids=repr)
def test_position_0_moves(mask):
    """From `first` on the picture is the mask's own; with a start per sample each has its picture there."""
    whole = np.broadcast_to(mask.dense(12, 12), (1, 2, 12, 12))
    assert_equal(shifted(mask, 0).dense(12, 12), mask.dense(12, 12))
    for first in (2, torch.tensor(2), [2, 5], np.array([0, 12])):
        see = shifted(mask, first).dense(12, 12)
        see = np.broadcast_to(see, (see.shape[0] if see.ndim == 4 else 1, 2, 12, 12))
        for b, begin in enumerate(np.atleast_1d(first)):
            assert_equal(see[b, :, begin:, begin:], whole[0, :, : 12 - begin, : 12 - begin])


def test_a_picture_after_text():
    for picture in (window2d((2, 2), 1), masks.shifted_window2d((2, 2), 5)):
        expected = np.zeros((9, 9), bool)
        expected[3:7, 3:7] = True
        assert_equal(shifted(picture, 3).dense(9, 9), expected)
        assert_equal((causal | shifted(picture, 3)).dense(9, 9), expected | np.tri(9, dtype=bool))


def test_values():
    assert shifted(prefix(3), 2) == shifted(prefix(3), [2]) != shifted(prefix(3), 3)
    assert repr(shifted(prefix(3), [2, 0])) == "shifted(prefix(3), [2, 0])"
    assert repr(~shifted(causal | prefix(3), 2)) == "~(causal | shifted(prefix(3), 2))"
    assert shifted(shifted(prefix(3), 2), 4).dense(9, 9)[0].tolist() == [False] * 6 + [True] * 3
    assert shifted(causal & masks.strided(2), 5) == causal & masks.strided(2)
    assert shifted(window2d((2, 2), 1), 3).explain(4, 8) == (
        "i=4 may not see j=8: shifted(window2d((2, 2), 1), 3) (5 is outside the 2 × 2 grid, counted from 3)"
    )
    text = shifted(masks.global_tokens([2]), [1, 0]).explain(3, 4)
    assert shifted(masks.global_tokens([2]), torch.tensor([1, 0])).explain(3, 4) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: shifted(np.ones((2, 2), bool), 1), TypeError, "mask is a ndarray: expected a mask of mha.masks"),
        (lambda: shifted(prefix(2), 1.0), TypeError, r"first is 1\.0: expected an integer"),
        (lambda: shifted(prefix(2), [True]), TypeError, "first has dtype bool: expected an integer, or one per sample"),
        (lambda: shifted(causal & lengths([2]), 1), ValueError, "and a term of it goes by slot"),
        (lambda: shifted(prefix(2), [1, 2]).check(3, 3, 3, 1), ValueError, "shifted has 2 entries and the batch has 3"),
        (lambda: shifted(prefix([1, 2]), 1).check(3, 3, 3, 1), ValueError, "prefix has 2 entries and the batch has 3"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
