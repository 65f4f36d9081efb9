"""The random bits of dropout: published vectors, Triton's own, and what p means."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import nn
from mha.dropout import Dropout, philox, uniform

# The known-answer vectors of Random123 for philox4x32-10: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
SEEDS, OFFSETS = [0, 1, 12345, 2**31 + 7, 2**62 + 3], [*range(37), 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 11]
SMALL = [torch.uint8, torch.int8, torch.int16, torch.int32]

TRITON = """
import json, sys, torch, triton, triton.language as tl

@triton.jit
def fill(out, offsets, seed, size: tl.constexpr):
    i = tl.arange(0, size)
    tl.store(out + i, tl.rand(seed, tl.load(offsets + i)))

seeds, offsets = json.load(sys.stdin)
size = triton.next_power_of_2(len(offsets))
padded = torch.tensor(offsets + [0] * (size - len(offsets)))
rows = []
for seed in seeds:
    out = torch.full((size,), float("nan"))
    fill[(1,)](out, padded, seed, size)
    rows.append(out[: len(offsets)].tolist())
json.dump(rows, sys.stdout)
"""


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_philox_known_answers(counter, key, result):
    assert [int(word) for word in philox(words(counter), words(key))] == words(result)


def test_uniform_equals_triton(tmp_path):
    pytest.importorskip("triton")
    script = tmp_path / "fill.py"  # Triton reads a kernel's source from its file
    script.write_text(TRITON)
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        input=json.dumps([SEEDS, OFFSETS]),
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    for seed, expected in zip(SEEDS, json.loads(answer.stdout), strict=True):
        assert_equal(uniform(seed, np.array(OFFSETS)), np.array(expected, np.float32), label=f"seed {seed}")


def test_uniform_stays_below_one():
    numbers = uniform(3, np.arange(10007))
    assert numbers.dtype == np.float32
    assert (numbers >= 0).all()
    assert np.float32(2**31 - 1) * np.float32(4.6566127342e-10) < 1


def test_the_offset_is_the_linear_index():
    shape, dropout = (2, 3, 5, 7), Dropout(0.4, 11)
    kept = dropout.kept(shape)
    for index in [(0, 0, 0, 0), (1, 2, 4, 6), (1, 0, 3, 2)]:
        offset = np.ravel_multi_index(index, shape)
        assert kept[index] == (uniform(11, offset) > np.float32(0.4))
    assert_equal(dropout.kept((1, 3, 5, 7))[0], kept[0])
    assert dropout.kept((2, 0, 5, 7)).shape == (2, 0, 5, 7)


def test_how_many_are_kept():
    """A fair coin of probability 1 − p, thrown n times, lies within five standard deviations; another seed differs."""
    n, p = 200_003, 0.3
    kept = Dropout(p, 5).kept((n,))
    assert abs(kept.mean() - (1 - p)) < 5 * np.sqrt(p * (1 - p) / n)
    assert abs((kept != Dropout(p, 6).kept((n,))).mean() - 2 * p * (1 - p)) < 5 * np.sqrt(0.25 / n)
    factors = Dropout(p, 5).factors((n,))
    assert_equal(np.unique(factors), [0.0, 1 / (1 - p)])


def test_a_dropout_is_a_value():
    assert Dropout(0.1, 3) == Dropout(0.1, 3) != Dropout(0.1, 4)
    assert repr(Dropout(0.1, 3)) == "Dropout(p=0.1, seed=3)"
    assert_equal(Dropout(0.1, np.int64(3)).kept((7,)), Dropout(0.1, 3).kept((7,)))


@pytest.mark.parametrize(
    "number",
    [np.int32, np.uint8, *(lambda x, dtype=dtype: torch.tensor(x, dtype=dtype) for dtype in SMALL)],
    ids=["np.int32", "np.uint8", *map(str, SMALL)],
)
def test_the_seed_has_64_bits_whatever_it_came_in(number):
    """In 32 bits the products of Philox overflow, and other weights are dropped."""
    dropout = Dropout(0.5, number(7))
    assert dropout.seed == 7
    assert type(dropout.seed) is int or dropout.seed.dtype == torch.int64
    assert_equal(dropout.kept((3, 5)), Dropout(0.5, 7).kept((3, 5)))
    x = torch.ones(1, 3, 5, 2)
    assert_equal(nn.attention(x, x, x, dropout=dropout), nn.attention(x, x, x, dropout=Dropout(0.5, 7)))


@pytest.mark.parametrize(
    ("p", "seed", "error", "message"),
    [
        (1.0, 0, ValueError, r"p is 1\.0: expected 0 ≤ p < 1"),
        (-0.1, 0, ValueError, r"p is -0\.1"),
        ("0.1", 0, TypeError, r"p is '0\.1': expected a number"),
        (True, 0, TypeError, "p is True"),
        (0.1, 1.0, TypeError, r"seed is 1\.0: expected an integer"),
        (0.1, True, TypeError, "seed is True: expected an integer"),
        (0.1, torch.tensor(1.0), TypeError, r"seed is tensor\(1\.\): expected an integer"),
        (0.1, torch.tensor(True), TypeError, "seed is True: expected an integer"),
        (0.1, torch.tensor([3, 5]), TypeError, r"seed is tensor\(\[3, 5\]\): expected an integer"),
        (0.1, 2**63, ValueError, f"seed is {2**63}: expected an integer of 64 bits"),
        (0.1, -1, ValueError, "seed is -1: expected at least 0"),
    ],
)
def test_what_is_refused(p, seed, error, message):
    with pytest.raises(error, match=message):
        Dropout(p, seed)
