"""LSH attention: buckets, who meets whom, and the limits in which it is attention."""

import numpy as np
import pytest

from approximation_calls import D, left_and_right, shared
from compare import assert_equal
from mha import masks, reference
from mha.reference import Reformer, angular_hash
from mha.reference.linear import shared_keys


def test_buckets_by_hand():
    """Two rotations make four buckets: +x, +y, −x, −y."""
    x = np.array([[[3.0, 1], [1, 2], [-2, 1], [0, -1]]])
    rotations = np.eye(2)[:, None, :]
    assert_equal(angular_hash(x, rotations), [[[0, 1, 2, 3]]])
    assert_equal(angular_hash(7 * x, rotations), angular_hash(x, rotations))
    assert_equal(angular_hash(x, np.empty((2, 1, 0))), np.zeros((1, 1, 4), int))


def test_near_vectors_meet_more_often():
    """The share of seeds in which two vectors fall into one bucket grows with the cosine between them."""
    angles = np.array([0.0, 0.3, 1.0, 2.0, np.pi])
    x = np.stack([np.cos(angles), np.sin(angles), 0 * angles], -1)[None]
    buckets = [angular_hash(x, Reformer(3, 4, seed=seed).rotations)[0, 0] for seed in range(300)]
    shares = np.mean([bucket == bucket[0] for bucket in buckets], 0)
    assert (np.diff(shares) < 0).all()
    assert shares[0] == 1
    assert shares[-1] == 0


@pytest.mark.parametrize("mask", [None, masks.causal], ids=str)
def test_one_bucket_in_one_chunk_is_attention(mask):
    """Of a token to all others: written once more as a softmax over pairs."""
    q, _, v = shared(9)
    scores = q @ np.swapaxes(shared_keys(q), -1, -2) / D**0.5
    others = ~np.eye(9, dtype=bool) & (np.tri(9, dtype=bool) if mask is not None else True)
    others[0, 0] = mask is not None  # the first token has nothing else
    weights = np.where(others, np.exp(scores), 0)
    expected = weights / weights.sum(-1, keepdims=True) @ v
    for core in (Reformer(D, 1, chunk=9), Reformer(D, 1, chunk=64, rounds=3)):
        assert_equal(core(q, q, v, mask=mask), expected, atol=1e-13)
        assert_equal(core.exact(q, q, v, mask=mask), expected, atol=1e-13)
        assert reference.approximation_error(core, q, q, v, mask=mask) < 1e-14
    with pytest.raises(AssertionError):  # planted: tokens attend to themselves
        assert_equal(reference.attention(q, shared_keys(q), v, mask=mask), expected, atol=1e-13)


def test_a_token_alone_sees_itself():
    q, _, v = shared(1)
    assert_equal(Reformer(D, 2)(q, q, v), v)
    q, _, v = shared(9)
    assert_equal(Reformer(D, 4, chunk=3)(q, q, v, mask=masks.causal)[..., 0, :], v[..., 0, :])
    assert_equal(Reformer(D, 2, chunk=1)(*shared(2), mask=masks.lengths([1, 1]))[..., 0, :], shared(2)[2][..., 0, :])


def test_rounds_find_more():
    """By hand: the pairs that meet are those of one bucket in the same chunk, or in the next; rounds add up."""
    q, _, v = shared(16)
    core = Reformer(D, 4, chunk=4, rounds=3)
    met = core.meetings(q, np.ones((1, 16, 1), bool))
    buckets = angular_hash(q, core.rotations)
    for at in np.ndindex(2, 2):
        expected = np.zeros((16, 16))
        for bucket in buckets[at]:
            order = sorted(range(16), key=lambda token: (bucket[token], token))
            for place, i in enumerate(order):
                for j in order[max(0, place // 4 * 4 - 4) : place // 4 * 4 + 4]:
                    expected[i, j] += bucket[i] == bucket[j]
        assert_equal(met[at], expected)
    errors = [reference.approximation_error(Reformer(D, 4, chunk=4, rounds=r), q, q, v) for r in (1, 4, 16)]
    assert errors == sorted(errors, reverse=True)


def test_later_tokens_move_the_cuts():
    """Causal in its sums, but the chunks are cut in an order that all tokens make; one chunk has no cuts."""
    q, _, v = shared(31)
    for x in (later := q.copy(), much := v.copy()):
        x[..., 20:, :] *= -3
    for core, same in ((Reformer(D, 2, chunk=31), True), (Reformer(D, 2, chunk=4), False)):
        before, after = (core(x, x, y, mask=masks.causal)[..., :20, :] for x, y in ((q, v), (later, much)))
        assert (np.abs(before - after).max() < 1e-13) == same
    assert_equal(*(core(q, q, x, mask=masks.causal)[..., :20, :] for x in (v, much)))  # values never pass


def test_padding_changes_nothing():
    rows = shared(9)
    for core in (Reformer(D, 4, chunk=4, rounds=2), Reformer(D, 4, chunk=4, across_buckets=True)):
        for options in ({}, {"mask": masks.causal}):
            expected = core(*rows, **options)
            for wide, padding, where in left_and_right(rows, 4):
                wide[1] = wide[0]
                found = core(*wide, mask=padding & options["mask"] if options else padding)
                assert_equal(found[..., where, :], expected, atol=1e-14)
                assert_equal(np.delete(found, np.arange(13)[where], -2), np.zeros((2, 2, 4, 7)))


def test_what_is_no_shared_call_is_refused():
    q, k, v = shared(5)
    with pytest.raises(ValueError, match="k differs from q: expected one tensor for both"):
        Reformer(D, 2)(q, k + 1, v)
    with pytest.raises(ValueError, match="num_buckets is 3: expected 1 or an even number"):
        Reformer(D, 3)
    with pytest.raises(ValueError, match="q has width 5 and the rotations have 4: expected equal widths"):
        Reformer(4, 2)(q, k, v)
