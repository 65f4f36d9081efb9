"""Each axis of a mask is its own: samples, heads, queries, keys, one or all of them, alone, composed, on both floors.

The oracle asks one pair at a time, in Python, and never broadcasts.
"""

import itertools
import math

import numpy as np
import pytest
import torch

import rounding
from compare import assert_equal
from mha import masks, nn, reference

N_Q, N_K, WIDTH = 3, 5, 7
BATCHES = [(), (1,), (2,), (3,), (0,), (2, 1), (1, 2), (2, 3), (2, 1, 3), (0, 2)]
HEADS = [(2, 2), (3, 1), (4, 2)]  # of queries and of keys; 2 and 3 are sizes of batches too
AXES = list(itertools.product([False, True], repeat=4))  # which of b, h, i, j a table tells apart


def table(rng, told_apart, sizes):
    return rng.random([size if told else 1 for told, size in zip(told_apart, sizes, strict=True)]) < 0.6


def entry(array, *index):
    return bool(array[tuple(0 if size == 1 else n for n, size in zip(index, array.shape, strict=True))])


def forms(rng, sizes, array):
    """Yield a name, a mask with the table, its rule (b, h, row, i, j), and where the queries of each sample start."""
    batch, _, n_q, n_k = sizes
    other = table(rng, rng.random(4) < 0.5, sizes)
    n = rng.integers(0, n_k + 1, batch)
    dense, lower_right = masks.dense(array), [n_k - n_q] * batch
    ends = [max(0, int(valid) - n_q) for valid in n]

    def says(b, h, row, j):
        return entry(array, b, h, row, j)

    yield "alone", dense, lambda b, h, row, i, j: says(b, h, row, j), lower_right
    yield "negated", ~dense, lambda b, h, row, i, j: not says(b, h, row, j), lower_right
    yield "and causal", dense & masks.causal, lambda b, h, row, i, j: says(b, h, row, j) and j <= i, lower_right
    yield (
        "or window",
        masks.window(0, 1) | dense,
        lambda b, h, row, i, j: says(b, h, row, j) or 0 <= j - i <= 1,
        lower_right,
    )
    yield (
        "and lengths",
        dense & masks.lengths(n) & masks.causal,
        lambda b, h, row, i, j: says(b, h, row, j) and j < n[b] and j <= i,
        ends,
    )
    yield (
        "or not lengths",
        dense | ~(masks.lengths(n) & masks.window(1, 1)),
        lambda b, h, row, i, j: says(b, h, row, j) or not (j < n[b] and abs(i - j) <= 1),
        ends,
    )
    yield (
        "with another table",
        ~(dense & ~masks.dense(other)) | masks.causal,
        lambda b, h, row, i, j: not (says(b, h, row, j) and not entry(other, b, h, row, j)) or j <= i,
        lower_right,
    )


def one_by_one(rule, starts, sizes):
    see = np.zeros(sizes, bool)
    for b, h, row, j in np.ndindex(*sizes):
        see[b, h, row, j] = rule(b, h, row, starts[b] + row, j)
    return see


def attended(q, k, v, see):
    """Return what each query takes, row by row, from (batch, heads, length, width)."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b, h, i in np.ndindex(*q.shape[:-1]):
        g = h * k.shape[1] // q.shape[1]
        keys = [j for j in range(k.shape[2]) if see[b, h, i, j]]
        e = [math.exp(q[b, h, i] @ k[b, g, j] / math.sqrt(q.shape[-1])) for j in keys]
        for j, share in zip(keys, e, strict=True):
            out[b, h, i] += share / math.fsum(e) * v[b, g, j]
    return out


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("batch_shape", BATCHES, ids=str)
def test_every_axis_of_a_mask(batch_shape, heads):
    num_heads, num_kv_heads = heads
    batch = math.prod(batch_shape)
    sizes = batch, num_heads, N_Q, N_K
    rng = np.random.default_rng(17)
    flat = (
        rng.normal(size=(batch, num_heads, N_Q, WIDTH)),
        rng.normal(size=(batch, num_kv_heads, N_K, WIDTH)),
        rng.normal(size=(batch, num_kv_heads, N_K, 2)),
    )
    q, k, v = (x.reshape(*batch_shape, *x.shape[1:]) for x in flat)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    atol = rounding.of_output(q, k, v) if batch else 0.0
    for told_apart in AXES:
        for name, mask, rule, starts in forms(rng, sizes, table(rng, told_apart, sizes)):
            label = f"{name}, table of {told_apart}"
            see = one_by_one(rule, starts, sizes)
            expected = attended(*flat, see).reshape(*batch_shape, num_heads, N_Q, 2)
            assert_equal(reference.attention(q, k, v, mask=mask), expected, atol=atol, label=label)
            assert_equal(nn.attention(*tensors, mask=mask), expected, atol=atol, label=f"nn: {label}")
            weights = nn.attention_weights(*tensors[:2], mask=mask)
            assert_equal(weights > 0, see.reshape(weights.shape), label=f"weights: {label}")


@pytest.mark.parametrize("told_apart", AXES, ids=str)
def test_dense_has_two_axes_or_four(told_apart):
    """An axis of size 1 is one that tells nothing apart."""
    sizes = 2, 3, N_Q, N_K
    rng = np.random.default_rng(19)
    for name, mask, rule, starts in forms(rng, sizes, table(rng, told_apart, sizes)):
        see = mask.dense(N_Q, N_K)
        assert see.ndim in (2, 4), name
        assert_equal(np.broadcast_to(see, sizes), one_by_one(rule, starts, sizes), label=name)
    told = np.ones([size if told else 1 for told, size in zip(told_apart, sizes, strict=True)], bool)
    samples_and_heads = told.shape[:2]
    expected = (N_Q, N_K) if samples_and_heads == (1, 1) else (*samples_and_heads, N_Q, N_K)
    assert (masks.dense(told) & masks.causal).dense(N_Q, N_K).shape == expected


def test_a_mask_of_heads_and_a_batch_of_two_axes():
    """The batch (2, 1) and two heads: the mask (1, 2, 1, 5) once went to the samples, without a word."""
    q, k, v = (np.random.default_rng(s).normal(size=(2, 1, 2, n, 4)) for s, n in enumerate((3, 5, 5)))
    mask = np.array([[[[True, True, False, False, False]], [[False, False, True, True, True]]]])
    expected = np.empty((2, 1, 2, 3, 4))
    for h, keys in enumerate((slice(0, 2), slice(2, 5))):
        expected[:, :, h] = reference.attention(q[:, :, [h]], k[:, :, [h], keys], v[:, :, [h], keys])[:, :, 0]
    atol = rounding.of_output(q, k, v)
    assert_equal(reference.attention(q, k, v, mask=mask), expected, atol=atol)
    assert_equal(nn.attention(*map(torch.from_numpy, (q, k, v)), mask=mask), expected, atol=atol)


@pytest.mark.parametrize("mask", [masks.dense(np.ones((0, 1, 1, 5), bool)), masks.lengths([])], ids=repr)
@pytest.mark.parametrize("other", [masks.causal, masks.dense(np.ones((1, 2, 3, 5), bool)), masks.lengths([])], ids=repr)
def test_masks_of_no_samples(mask, other):
    for composed in (mask & other, other | mask, ~mask & ~other):
        assert composed.dense(3, 5).shape[0] == 0
        assert composed.pairs(3, 5) == 0
