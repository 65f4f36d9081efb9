"""flash-attention's arguments against their documented meaning, pair by pair; the library needs a GPU."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import assert_equal
from mha.masks import causal, dense, key_padding, lengths, per_head, prefix, segments, window


def shown(arguments, n_q, n_k):
    """Which pairs flash-attention lets see each other: its README, word by word, for one sequence.

    "If causal, the mask is aligned to the bottom right corner." "If window_size != (−1, −1), query at position i will
    only attend to keys between [i + seqlen_k − seqlen_q − window_size[0], i + seqlen_k − seqlen_q + window_size[1]]."
    """
    left, right = arguments["window_size"]
    right = 0 if arguments["causal"] else right
    see = np.zeros((n_q, n_k), bool)
    for i, j in np.ndindex(n_q, n_k):
        at = i + n_k - n_q
        see[i, j] = (left < 0 or at - left <= j) and (right < 0 or j <= at + right)
    return see


def unpacked(arguments, batch, n_q, n_k, keys):
    """The picture (b, i, j) of packed sequences; `keys` lists the slot (b, j) of each packed key."""
    q_ends, k_ends = arguments["cu_seqlens_q"].tolist(), arguments["cu_seqlens_k"].tolist()
    assert q_ends[-1] == batch * n_q
    assert k_ends[-1] == len(keys)
    see = np.zeros((batch, n_q, n_k), bool)
    for s in range(len(q_ends) - 1):
        inner = shown(arguments, q_ends[s + 1] - q_ends[s], k_ends[s + 1] - k_ends[s])
        assert inner.shape[0] <= arguments["max_seqlen_q"]
        assert inner.shape[1] <= arguments["max_seqlen_k"]
        for i, j in zip(*np.nonzero(inner), strict=True):
            query, (b, key) = q_ends[s] + i, keys[k_ends[s] + j]
            assert query // n_q == b, "a sequence of two samples"
            see[b, query % n_q, key] = True
    return see


def unless_refused(mask, *lengths_and_start):
    try:
        return mask.to_flash(*lengths_and_start)
    except ValueError:
        return None


windows = st.one_of(st.just(causal), st.builds(window, st.integers(0, 9), st.integers(0, 9)))


@settings(deadline=None, max_examples=100)
@given(windows, windows, st.integers(0, 7), st.integers(0, 7), st.one_of(st.none(), st.integers(-5, 9)))
def test_windows(one, two, n_q, n_k, q_start):
    mask = one & two
    arguments = unless_refused(mask, n_q, n_k, q_start)
    if arguments is None:
        assert q_start not in (None, n_k - n_q)
    else:
        assert_equal(shown(arguments, n_q, n_k), mask.dense(n_q, n_k, q_start))


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.none(), windows), st.lists(st.integers(0, 7), min_size=1, max_size=3), st.integers(0, 5))
def test_lengths(side, n, n_q):
    mask, n_k = lengths(n) if side is None else side & lengths(n), 7
    keys = [(b, j) for b, number in enumerate(n) for j in range(number)]
    arguments = unless_refused(mask, n_q, n_k)
    if arguments is None:
        assert min(n) < n_q  # our queries then begin at slot 0, flash-attention's before it
        return
    assert_equal(unpacked(arguments, len(n), n_q, n_k, keys), mask.dense(n_q, n_k).reshape(len(n), n_q, n_k))
    padded = key_padding(np.arange(n_k) < np.array(n)[:, None])
    again = (padded if side is None else side & padded).to_flash(n_q, n_k)
    assert {name: str(x) for name, x in again.items()} == {name: str(x) for name, x in arguments.items()}


ids = st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6).map(sorted), min_size=1, max_size=3)


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.none(), windows), ids)
def test_segments(side, rows):
    mask = segments(rows) if side is None else segments(rows) & side
    keys = [(b, j) for b in range(len(rows)) for j in range(6)]
    assert_equal(unpacked(mask.to_flash(6, 6), len(rows), 6, 6, keys), mask.dense(6, 6).reshape(len(rows), 6, 6))


def test_segments_of_other_keys():
    mask = segments([0, 0, 2], [0, 1, 1, 2, 2])
    keys = [(0, j) for j in range(5)]
    assert_equal(unpacked(mask.to_flash(3, 5), 1, 3, 5, keys), mask.dense(3, 5)[None])
    with pytest.raises(ValueError, match=r"q_start is \[2\]: flash-attention puts the last query of each sequence"):
        (mask & causal).to_flash(3, 5)


def test_the_arguments():
    assert causal.to_flash(3, 5) == {"causal": True, "window_size": (-1, 0)}
    assert window(4, 2).to_flash(3, 5) == {"causal": False, "window_size": (4, 2)}
    assert (causal & window(4, 2)).to_flash(3, 5) == {"causal": True, "window_size": (4, 0)}
    assert causal.to_flash(3, 5, 3) == {"causal": False, "window_size": (-1, 1)}
    arguments = (causal & lengths([2, 5])).to_flash(1, 5)
    assert arguments["cu_seqlens_q"].tolist() == [0, 1, 2]
    assert arguments["cu_seqlens_k"].tolist() == [0, 2, 7]
    assert arguments["cu_seqlens_k"].dtype == torch.int32
    assert (arguments["max_seqlen_q"], arguments["max_seqlen_k"]) == (1, 5)


@pytest.mark.parametrize(
    ("mask", "q_start", "message"),
    [
        (prefix(2), None, r"cannot say prefix\(2\): they know causal, window, lengths and segments, joined by &"),
        (causal | window(1, 1), None, r"cannot say causal \| window\(1, 1\)"),
        (causal & ~window(1, 1), None, r"cannot say ~window\(1, 1\)"),
        (dense(np.ones((5, 5), bool)), None, r"cannot say dense"),
        (per_head([causal, window(1, 1)]), None, r"cannot say per_head"),
        (causal, 0, "q_start is 2 before the place"),
        (window(1, 9), 4, "q_start is 2 behind the place"),
        (causal, [0, 2], r"q_start is \[0, 2\]: flash-attention puts.*\[0, 2\] positions ahead"),
        (lengths([1, 2]) & segments([0] * 3, [0] * 5), None, "packed by one term alone"),
        (segments([1, 0, 1], [0] * 5), None, "slots of a sequence must lie together"),
        (key_padding(np.arange(5)[None] > 0), None, "keys before or between the valid ones must be cut out"),
    ],
    ids=repr,
)
def test_what_cannot_be_said(mask, q_start, message):
    n_q = 5 if "dense" in repr(mask) else 3
    with pytest.raises(ValueError, match=message):
        mask.to_flash(n_q, 5, q_start)
