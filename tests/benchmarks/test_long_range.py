"""The task has the answers that it says it has, the numbers of a row are those of its softmax, and the parts run."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import reference

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("long_range")


def drawn(task, hops, gap):
    return task.examples(hops, 5, gap, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("gap", [0, 1, 13])
def test_the_answer_stands_in_the_token_that_is_like_the_question(bench, gap):
    task = bench.recall_task
    tokens, answers = drawn(task, 1, gap)
    listed, asked = tokens[:, : task.ITEMS] - task.SYMBOLS, tokens[:, task.ITEMS + gap :]
    for row in range(len(tokens)):
        value = {int(item) // task.VALUES: int(item) % task.VALUES for item in listed[row]}
        assert [value[int(symbol)] for symbol in asked[row]] == answers[row].tolist()


@pytest.mark.parametrize("gap", [0, 1, 13])
def test_the_answer_stands_after_the_token_that_is_like_the_question(bench, gap):
    task = bench.recall_task
    tokens, answers = drawn(task, 2, gap)
    for row, symbols in enumerate(tokens.tolist()):
        listed, asked = symbols[: task.ITEMS], symbols[task.ITEMS + gap :]
        assert [listed[listed.index(symbol) + 1] for symbol in asked] == answers[row].tolist()


def test_a_gap_holds_none_of_the_symbols(bench):
    task = bench.recall_task
    for hops in (1, 2):
        between = drawn(task, hops, 13)[0][:, task.ITEMS : task.ITEMS + 13]
        assert between.min() >= task.NUM_TOKENS - task.OTHERS
        assert between.max() < task.NUM_TOKENS


def test_every_setting_trains_and_is_asked(bench, monkeypatch):
    monkeypatch.setattr(bench, "GAPS", (0, 3))
    monkeypatch.setattr(bench, "TESTED", 2)
    found = bench.recall(tiny=True)
    assert len(found) == sum(map(len, bench.SETTINGS.values()))
    assert all(0 <= share <= 1 for run in found for share in run["accuracy"].values())


def test_queries_grow_with_the_keys_that_they_see(bench):
    task = bench.recall_task
    q, k, v = torch.randn(3, 1, 2, task.TRAINED_LENGTH + 3, 5, generator=torch.Generator().manual_seed(1)).double()
    found, plain = task.log_length(q, k, v, mask=None), task.nn.attention(q, k, v)
    last = task.TRAINED_LENGTH - 1
    assert_equal(found[..., last, :], plain[..., last, :], rtol=1e-12)
    assert_equal(found[..., 0, :], v.mean(-2), rtol=1e-12)  # ln 1 = 0
    assert (found[..., -1, :] - plain[..., -1, :]).abs().max() > 1e-3


def test_the_numbers_of_a_row_leave_the_start_token_out(bench):
    scores = np.random.default_rng(0).normal(size=(3, 11))
    found = bench.of_row(scores)
    weights = reference.softmax(scores[:, 1:])
    assert_equal(found["largest"], weights.max(-1), rtol=1e-12)
    assert_equal(np.log(found["effective_keys"]), -(weights * np.log(weights)).sum(-1), rtol=1e-12)
    assert_equal(found["on_start"], reference.softmax(scores)[:, 0], rtol=1e-12)
    assert_equal(bench.of_row(np.zeros((1, 8)))["effective_keys"], np.array([7.0]), rtol=1e-12)
