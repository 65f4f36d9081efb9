"""The rule as a compiler reads it: the same picture from a kernel in Triton's interpreter as from NumPy."""

import functools
import operator
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compare import assert_equal
from masks.every import every, in_turn
from mha import masks
from mha.masks import causal, dense, lengths, segments, window
from mha.masks.source import rule_of, source_of

N_Q, N_K, BATCH, HEADS = 17, 37, 2, 2
MASKS = every(N_Q, N_K, BATCH, HEADS)


def test_the_text_is_the_structure_alone():
    source = source_of(causal & window(5, 0) & lengths([3, 9]))
    assert source.text == (
        "((Causal(at, b, h, i, j) & Window(at, b, h, i, j, at(p[0], 0), at(p[0], 1))) & Lengths(at, b, h, i, j, p[1]))"
    )
    assert_equal(source.p[0], [5, 0])
    assert_equal(source.p[1], [3, 9])
    other = source_of(causal & window(2, 7) & lengths([1, 2, 3]))
    assert other.text == source.text
    assert rule_of(other.text, _plain) is rule_of(source.text, _plain)


def _plain(function):
    return function


def test_numbers_have_32_bits_where_they_fit():
    assert source_of(causal & lengths([3])).p[1].dtype == np.int32
    assert source_of(window(2**31, 0)).p[0].tolist() == [2**31, 0]
    assert source_of(segments([2**40, 1])).p[1].tolist() == [2**40, 1]
    assert source_of(dense(np.eye(3) > 0)).p[1].dtype == bool


def test_two_kinds_of_one_name_are_refused():
    twins = [type("Twin", (masks.Mask,), {}) for _ in range(2)]
    with pytest.raises(TypeError, match="2 kinds of masks are named Twin: expected one"):
        rule_of("Twin(at, b, h, i, j)", _plain)
    assert len(twins) == 2  # alive until here


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
@pytest.mark.parametrize("q_start", [None, -5, [0, 7]], ids=str)
def test_python_runs_the_text(mask, q_start):
    start = masks.query_start(mask, N_Q, N_K, q_start)
    source = source_of(mask.placed(start))
    b, h = np.ix_(range(BATCH), range(HEADS))
    i = np.reshape(start, (-1, 1, 1, 1)) + np.arange(N_Q)[:, None]
    rule, b, h = rule_of(source.text, _plain), b[..., None, None], h[..., None, None]
    see = rule(lambda table, k: table[k], b, h, i, np.arange(N_K), source.p)
    expected = mask.dense(N_Q, N_K, q_start)
    assert_equal(*np.broadcast_arrays(see, expected, np.empty((BATCH, HEADS, N_Q, N_K)))[:2])


def run_triton(folder, cases, **environment):
    pytest.importorskip("triton")
    given, made = folder / "cases", folder / "results"
    given.write_bytes(pickle.dumps(cases))
    script = Path(__file__).with_name("triton_masks.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(folder / "cache")} | environment
    subprocess.run([sys.executable, "-W", "ignore", script, given, made], env=environment, check=True, timeout=300)
    return pickle.loads(made.read_bytes())


def test_a_kernel_draws_the_same_picture(tmp_path):
    pairs = (case.values for case in in_turn(MASKS, [None, [-3, 7]]))
    cases = [(mask, N_Q, N_K, start, BATCH, HEADS) for mask, start in pairs]
    pictures = run_triton(tmp_path, cases, TRITON_INTERPRET="1")
    for (mask, *_, start, _, _), picture in zip(cases, pictures, strict=True):
        expected = np.broadcast_to(mask.dense(N_Q, N_K, start), picture.shape)
        assert_equal(picture, expected, label=f"{mask!r} from {start}")


def test_the_rule_compiles_for_a_device(tmp_path):
    together = functools.reduce(operator.or_, [MASKS[name] for name in ("bigbird", "nonsense", "heads of many kinds")])
    assert all(run_triton(tmp_path, [together], TRITON_INTERPRET="0"))
