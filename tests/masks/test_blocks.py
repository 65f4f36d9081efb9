"""Masks of blocks, each against the sentence that defines it."""

import numpy as np
import pytest

from compare import assert_equal
from masks.loops import LENGTHS, by_pairs
from mha import masks
from mha.masks import causal, fixed, global_tokens, random_blocks, window


def is_fixed(block, summary):
    """The query's block, and the last `summary` positions of every block."""
    blocks = [range(start, start + block) for start in range(0, 60, block)]
    summaries = {j for places in blocks for j in places[block - summary :]}
    return lambda i, j: any(i in places and j in places for places in blocks) or j in summaries


@pytest.mark.parametrize(("n_q", "n_k"), LENGTHS)
@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        (fixed(3), is_fixed(3, 1)),
        (fixed(4, 2), is_fixed(4, 2)),
        (fixed(3, 0), is_fixed(3, 0)),
        (fixed(1), lambda i, j: True),
        (causal & fixed(5, 2), lambda i, j: j <= i and is_fixed(5, 2)(i, j)),
    ],
    ids=lambda value: repr(value) if isinstance(value, masks.Mask) else "",
)
def test_fixed(mask, rule, n_q, n_k):
    for start in (None, 5, -3):
        first = n_k - n_q if start is None else start
        assert_equal(mask.dense(n_q, n_k, q_start=start), by_pairs(rule, n_q, n_k, first), label=f"from {first}")


def philox_word(counter, seed):
    """The first word of Philox 4x32-10 (Salmon et al., 2011), in Python's own integers."""
    c, k = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(right >> 32) ^ c[1] ^ k[0], right & 0xFFFFFFFF, (left >> 32) ^ c[3] ^ k[1], left & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


@pytest.mark.parametrize(("seed", "n", "block", "number"), [(0, 13, 3, 2), (2**40 + 7, 11, 1, 4), (5, 7, 7, 1)])
def test_random_blocks_are_drawn_by_philox(seed, n, block, number):
    blocks = -(-n // block)
    drawn = []
    for row in range(blocks):
        words = [philox_word(row * blocks + column, seed) for column in range(blocks)]
        drawn.append(set(sorted(range(blocks), key=lambda c, words=words: words[c])[:number]))
    see = random_blocks(seed, n, block=block, number=number).dense(n, n)
    assert_equal(see, by_pairs(lambda i, j: j // block in drawn[i // block], n, n, 0))


def test_random_blocks_do_not_depend_on_the_call():
    """A chunk of queries, or fewer keys, see what they see in the whole; another seed sees something else."""
    mask = random_blocks(3, 23, block=4, number=2)
    whole = mask.dense(23, 23)
    assert_equal(mask.dense(5, 23, q_start=9), whole[9:14])
    assert_equal(mask.dense(23, 11, q_start=0), whole[:, :11])
    assert (random_blocks(4, 23, block=4, number=2).dense(23, 23) != whole).any()
    assert_equal(mask.dense(3, 23, q_start=24), whole[:3])  # beyond the last whole block the draw repeats


def test_big_bird():
    n, block = 24, 3
    random = random_blocks(1, n, block=block, number=2)
    see = (window(3, 3) | global_tokens([0, 1]) | random).dense(n, n)
    blocks = random.dense(n, n).reshape(8, 3, 8, 3)
    assert_equal(blocks.any((1, 3)), blocks.all((1, 3)))
    assert_equal(blocks.any((1, 3)).sum(-1), np.full(8, 2))
    expected = by_pairs(lambda i, j: abs(i - j) <= 3 or min(i, j) < 2 or bool(random(0, 0, i, j)), n, n, 0)
    assert_equal(see, expected)


@pytest.mark.parametrize(
    ("mask", "pair", "text"),
    [
        (fixed(4), (6, 5), "i=6 may see j=5: fixed(4, 1) (both in block 1)"),
        (fixed(4, 2), (9, 2), "i=9 may see j=2: fixed(4, 2) (key 2 is among the last 2 of block 0)"),
        (
            fixed(4),
            (9, 2),
            "i=9 may not see j=2: fixed(4, 1) (query in block 2, key in block 0, and key 2 is not among its last 1)",
        ),
        (
            random_blocks(5, 7, block=7, number=1),
            (6, 0),
            "i=6 may see j=0: random_blocks(5, 7, block=7, number=1) (query block 0 drew key block 0)",
        ),
        (
            random_blocks(5, 7, block=7, number=0),
            (6, 0),
            "i=6 may not see j=0: random_blocks(5, 7, block=7, number=0) (query block 0 did not draw key block 0)",
        ),
    ],
    ids=repr,
)
def test_explain(mask, pair, text):
    assert mask.explain(*pair) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fixed(0), ValueError, "block is 0: expected at least 1"),
        (lambda: fixed(3, -1), ValueError, "summary is -1: expected at least 0"),
        (lambda: fixed(3, 4), ValueError, "summary is 4 and block is 3: expected at most the block"),
        (lambda: fixed(2.5), TypeError, r"block is 2\.5: expected an integer"),
        (lambda: random_blocks(-1, 7, block=2, number=1), ValueError, "seed is -1: expected at least 0"),
        (lambda: random_blocks(0, 7, block=0, number=1), ValueError, "block is 0: expected at least 1"),
        (
            lambda: random_blocks(0, 7, block=2, number=5),
            ValueError,
            "number is 5: expected at most 4, the blocks",
        ),
        (lambda: random_blocks(0, True, block=2, number=1), TypeError, "n is True: expected an integer"),
        (
            lambda: random_blocks(0, 7, block=2, number=1).dense(3, 8),
            ValueError,
            "for n = 7 and there are 8 keys",
        ),
        (lambda: random_blocks(0, 7, block=2, number=1).dense(9, 7), ValueError, "n = 7 and there are 9 queries"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
