"""flash-attention's arguments against their documented meaning, pair by pair; the library needs a GPU."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import assert_equal
from mha.masks import causal, dense, key_padding, lengths, per_head, prefix, query_start, segments, window


def shown(arguments, n_q, n_k):
    """Which pairs flash-attention lets see each other: its README, word by word, for one sequence.

    "If causal, the mask is aligned to the bottom right corner." "If window_size != (−1, −1), query at position i will
    only attend to keys between [i + seqlen_k − seqlen_q − window_size[0], i + seqlen_k − seqlen_q + window_size[1]]."
    """
    left, right = arguments.get("window_size", (-1, -1))
    right = 0 if arguments.get("causal") else right
    see = np.zeros((n_q, n_k), bool)
    for i, j in np.ndindex(n_q, n_k):
        at = i + n_k - n_q
        see[i, j] = (left < 0 or at - left <= j) and (right < 0 or j <= at + right)
    return see


def unpacked(arguments, queries, keys, shape):
    """The picture (b, i, j) of packed sequences; `queries` and `keys` list the sample and slot of each."""
    ends = {"q": arguments["cu_seqlens_q"].tolist(), "k": arguments["cu_seqlens_k"].tolist()}
    assert (ends["q"][-1], ends["k"][-1]) == (len(queries), len(keys))
    see = np.zeros(shape, bool)
    for s in range(len(ends["q"]) - 1):
        (first, last), (first_key, last_key) = (ends[x][s : s + 2] for x in "qk")
        assert last - first <= arguments["max_seqlen_q"]
        assert last_key - first_key <= arguments["max_seqlen_k"]
        for i, j in np.argwhere(shown(arguments, last - first, last_key - first_key)):
            (b, query), (sample, key) = queries[first + i], keys[first_key + j]
            assert b == sample, "a sequence of two samples"
            see[b, query, key] = True
    return see


def slots(*counts):
    return [(b, slot) for b, number in enumerate(counts) for slot in range(number)]


def unless_refused(mask, *lengths_and_start):
    try:
        return mask.to_flash(*lengths_and_start)
    except ValueError:
        return None


windows = st.one_of(st.just(causal), st.builds(window, st.integers(0, 9), st.integers(0, 9)))


@settings(deadline=None, max_examples=60)
@given(windows, windows, st.integers(0, 7), st.integers(0, 7), st.one_of(st.none(), st.integers(-5, 9)))
def test_windows(one, two, n_q, n_k, q_start):
    mask = one & two
    arguments = unless_refused(mask, n_q, n_k, q_start)
    if arguments is None:
        assert q_start not in (None, n_k - n_q)
    else:
        assert_equal(shown(arguments, n_q, n_k), mask.dense(n_q, n_k, q_start))


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.none(), windows), st.lists(st.integers(0, 7), min_size=1, max_size=3), st.integers(0, 9))
def test_lengths(side, n, n_q):
    mask, n_k = lengths(n) if side is None else side & lengths(n), 7
    arguments, see = mask.to_flash(n_q, n_k), mask.dense(n_q, n_k).reshape(len(n), n_q, n_k)
    start = query_start(mask, n_q, n_k)
    past = [sum(start[b] + i >= number for i in range(n_q)) for b, number in enumerate(n)]  # the last valid key
    queries = [n_q - (0 if side is None else rest) for rest in past]
    for b, number in enumerate(queries):
        see[b, number:] = False
    assert_equal(unpacked(arguments, slots(*queries), slots(*n), see.shape), see)
    padded = key_padding(np.arange(n_k) < np.array(n)[:, None])
    again = (padded if side is None else side & padded).to_flash(n_q, n_k)
    assert {name: str(x) for name, x in again.items()} == {name: str(x) for name, x in arguments.items()}


ids = st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6).map(sorted), min_size=1, max_size=3)


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.none(), windows), ids)
def test_segments(side, rows):
    mask = segments(rows) if side is None else segments(rows) & side
    see, places = mask.dense(6, 6).reshape(len(rows), 6, 6), slots(*[6] * len(rows))
    assert_equal(unpacked(mask.to_flash(6, 6), places, places, see.shape), see)


def test_segments_of_other_keys():
    mask = segments([0, 0, 2], [0, 1, 1, 2, 2])
    assert_equal(unpacked(mask.to_flash(3, 5), slots(3), slots(5), (1, 3, 5)), mask.dense(3, 5)[None])
    with pytest.raises(ValueError, match=r"q_start is \[2\]: flash-attention puts the last query of each sequence"):
        (mask & causal).to_flash(3, 5)


def test_the_arguments():
    assert causal.to_flash(3, 5) == {"causal": True}
    assert window(4, 2).to_flash(3, 5) == {"window_size": (4, 2)}
    assert (causal & window(4, 2)).to_flash(3, 5) == {"window_size": (4, 0)}
    assert causal.to_flash(3, 5, 3) == {"window_size": (-1, 1)}
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
        (lengths([2]) & segments([0] * 3, [0] * 5), None, "packed by one term alone"),
        (causal & segments([0] * 3, [0] * 5), [0, 2], "there are 2 samples, and each needs its ids"),
        (causal & lengths([2, 5]), 0, r"\[0, 2\] positions ahead"),
        (segments([1, 0, 1], [0] * 5), None, "slots of a sequence must lie together"),
        (key_padding(np.arange(5)[None] > 0), None, "keys before or between the valid ones must be cut out"),
    ],
    ids=repr,
)
def test_what_cannot_be_said(mask, q_start, message):
    n_q = 5 if "dense" in repr(mask) else 3
    with pytest.raises(ValueError, match=message):
        mask.to_flash(n_q, 5, q_start)
