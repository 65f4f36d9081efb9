"""Swin's table of offsets on a grid, against transformers."""

import numpy as np
import pytest
import torch
from transformers.models.swin.modeling_swin import SwinRelativePositionBias

from compare import assert_equal
from mha.reference import grid_bias

HEADS = 3


def draw(window):
    rows, columns = window
    return np.random.default_rng(0).normal(size=((2 * rows - 1) * (2 * columns - 1), HEADS))


@pytest.mark.parametrize("window", [(3, 5), (7, 7), (1, 4), (1, 1)])
def test_equals_swin(window):
    table, places = draw(window), np.arange(np.prod(window))
    theirs = SwinRelativePositionBias(HEADS, window).double()
    theirs.relative_position_bias_table.data.copy_(torch.from_numpy(table))
    expected = theirs()[0].detach()
    assert_equal(grid_bias(table, places, places, window=window), expected)
    if len(places) > 1:
        backwards = grid_bias(table[::-1].copy(), places, places, window=window)
        assert np.abs(backwards - expected.numpy()).max() > 1e-2, "query minus key, not key minus query"


def test_an_offset_is_one_number_wherever_the_pair_stands():
    window, places = (3, 4), np.arange(12)
    table, bias = draw(window), grid_bias(draw(window), places, places, window=window)
    found = {}
    for i, j in np.ndindex(12, 12):
        offset = i // 4 - j // 4, i % 4 - j % 4
        assert_equal(bias[:, i, j], found.setdefault(offset, bias[:, i, j]), label=str(offset))
    assert len(found) == len(table) == 5 * 7


def test_some_places_of_each_sample():
    table, places = draw((3, 4)), np.arange(12)
    whole = grid_bias(table, places, places, window=(3, 4))
    at_q, at_k = np.array([[11, 0], [5, 6]], np.uint8), np.array([3, 9, 2], np.uint8)
    bias = grid_bias(table, at_q, at_k, window=(3, 4))
    for b, h, i, j in np.ndindex(bias.shape):
        assert bias[b, h, i, j] == whole[h, at_q[b, i], at_k[j]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at_k": np.arange(13)}, "k_positions reach from 0 to 12: expected 0 to 11, the places of a window of 3 × 4"),
        ({"at_k": np.arange(-1, 3)}, "k_positions reach from -1 to 2"),
        ({"window": (4, 4)}, r"table has shape \(35, 3\): expected \(49, 3\)"),
    ],
)
def test_what_is_not_in_the_window(options, words):
    call = {"at_k": np.arange(12), "window": (3, 4)} | options
    with pytest.raises(ValueError, match=words):
        grid_bias(draw((3, 4)), np.arange(12), call["at_k"], window=call["window"])
