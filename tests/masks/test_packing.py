"""Packed documents: each attends as if it were alone."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import reference
from mha.masks import causal, segment_ids, segment_positions, segments

DOCUMENTS = [3, 1, 5]
IDS = np.repeat([4, 9, 2], DOCUMENTS)


def test_a_query_sees_its_own_segment():
    q_ids, k_ids = [[7, 7, 3], [1, 2, 2]], [[3, 7, 0, 7, 3], [2, 2, 1, 1, 1]]
    see = segments(q_ids, k_ids).dense(3, 5)
    for b, i, j in np.ndindex(2, 3, 5):
        assert bool(see[b, 0, i, j]) == (q_ids[b][i] == k_ids[b][j])
    for start in (0, 4, [0, 9]):
        assert_equal(segments(q_ids, k_ids).dense(3, 5, start), see, label="segments go by slot")
    shared = segments(q_ids[0], k_ids[0])
    assert_equal(shared.dense(3, 5), see[0, 0])
    assert_equal((shared & causal).dense(3, 5, [0, 2])[1, 0], see[0, 0] & causal.dense(3, 5, 2))


def test_packed_documents_are_block_diagonal():
    blocks = np.zeros((9, 9), bool)
    for first, n in zip(np.cumsum([0, *DOCUMENTS]), DOCUMENTS, strict=False):
        blocks[first : first + n, first : first + n] = np.tri(n, dtype=bool)
    assert_equal((causal & segments(IDS)).dense(9, 9), blocks)


def test_packed_equals_apart():
    q, k, v = (np.random.default_rng(s).normal(size=(1, 2, 9, 5)) for s in range(3))
    packed = reference.attention(q, k, v, mask=causal & segments(IDS))
    for first, n in zip(np.cumsum([0, *DOCUMENTS]), DOCUMENTS, strict=False):
        rows = slice(first, first + n)
        alone = reference.attention(q[:, :, rows], k[:, :, rows], v[:, :, rows], mask=causal)
        assert_equal(packed[:, :, rows], alone, rtol=1e-14, atol=1e-14)


def test_a_row_that_decodes():
    """One new query of the second document, after the keys of both."""
    assert_equal((causal & segments([1], [0, 0, 1, 1])).dense(1, 4), np.array([[False, False, True, True]]))


def test_positions_restart():
    assert segment_positions(IDS).tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 4]
    again = segment_positions([[5, 5, 7, 5], [1, 1, 1, 1]])
    assert again.tolist() == [[0, 1, 0, 0], [0, 1, 2, 3]]
    tensor = segment_positions(torch.from_numpy(IDS))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.int64
    assert tensor.tolist() == segment_positions(IDS).tolist()
    assert segment_positions([]).tolist() == []


def test_values():
    assert segments([1, 2]) == segments([1, 2], [1, 2]) == segments(torch.tensor([1, 2], dtype=torch.int8))
    assert segments([1, 2]) != segments([[1, 2]] * 2)
    assert repr(segments([1, 2])) == "segments([1, 2])"
    assert repr(segments([[1], [2]], [[1, 1], [2, 3]])) == "segments([[1], [2]], [[1, 1], [2, 3]])"
    ids = np.array([1, 2])
    mask = segments(ids)
    ids[:] = 0
    assert mask == segments([1, 2])


def test_explain():
    mask = segments([[7, 7, 3], [1, 2, 2]])
    text = repr(mask)
    assert mask.explain(1, 2) == f"i=1 may not see j=2: {text} (query in segment 7, key in segment 3)"
    assert mask.explain(2, 1, b=1) == f"i=2 may see j=1: {text} (both in segment 2)"
    assert mask.explain(5, 0, q_start=4).startswith("i=5 may see j=0")
    assert segments([7, 3]).explain(10, 0, b=1, q_start=[0, 9]).endswith("(query in segment 3, key in segment 7)")
    with pytest.raises(ValueError, match="i is in slot 3: expected 0 to 2, the slots of the segments"):
        mask.explain(3, 0)
    with pytest.raises(ValueError, match="j is in slot 3: expected 0 to 2, the slots of the segments"):
        mask.explain(0, 3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: segments([0.5]), TypeError, "q_ids has dtype float64: expected integers, one id per slot"),
        (lambda: segments([1], [True]), TypeError, "k_ids has dtype bool: expected integers"),
        (lambda: segments(3), ValueError, r"q_ids has shape \(\): expected \(n,\) or \(b, n\)"),
        (lambda: segments([[1], [1, 2]]), ValueError, "q_ids is ragged: expected rows of equal lengths"),
        (lambda: segments([[1], [2]], [1]), ValueError, "k_ids are of 1 samples and q_ids of 2"),
        (lambda: segments([1, 2]).dense(2, 3), ValueError, "knows 2 queries and 2 keys of 1 samples: expected 2 and 3"),
        (lambda: segments([[1], [2]]).check(1, 1, 3, 1), ValueError, "once or for 3 samples"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_ids_of_documents_by_where_they_begin():
    assert segment_ids([0, 3, 3, 4, 9]).tolist() == [0, 0, 0, 2, 3, 3, 3, 3, 3]
    assert segment_ids([0]).tolist() == []
    tensor = segment_ids(torch.tensor([0, 2, 5], dtype=torch.int32))
    assert tensor.tolist() == [0, 0, 1, 1, 1]
    see = segments(segment_ids([0, 1, 1, 3]), segment_ids([0, 2, 4, 4])).dense(3, 4)
    assert_equal(see, [[True, True, False, False], [False] * 4, [False] * 4])


@pytest.mark.parametrize("offsets", [[], [1, 3], [0, 4, 3]], ids=str)
def test_offsets_that_are_none_are_named(offsets):
    with pytest.raises(ValueError, match=r"offsets is .*: expected 0, then where each document ends, in order"):
        segment_ids(offsets)


@pytest.mark.parametrize(
    "offsets", [5, [[0, 3], [3, 5]], torch.zeros(2, 2, dtype=torch.int32)], ids=["0", "2", "tensor"]
)
def test_offsets_of_more_than_one_row_are_refused(offsets):
    with pytest.raises(ValueError, match=r"offsets has shape \(.*\): expected \(n \+ 1,\), for documents of one row"):
        segment_ids(offsets)
