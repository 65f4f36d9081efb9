"""What is counted before and after the model runs, and what the committed numbers must show."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("generation")


def test_fifty_templates_in_all_four_numbers(bench):
    found = list(bench.sentences())
    assert len(found) == 200
    assert len({text for text, _, _ in found}) == 200
    assert all(len(text.split()) == 5 for text, _, _ in found), "so that all sentences have their verb at one place"
    assert found[1] == ("The key to the cabinets", 0, 1)
    assert found[2] == ("The keys to the cabinet", 1, 0)


def test_heads_are_ranked_from_the_highest_score(bench):
    scores = np.array([[0.1, 0.5, 0.2], [0.9, 0.3, 0.0]])
    assert bench.ranked(scores) == [(1, 0), (0, 1), (1, 1), (0, 2), (0, 0), (1, 2)]


def test_the_control_is_other_heads_of_the_same_layers(bench):
    heads = [(18, 6), (17, 3), (17, 4)]
    for seed in range(20):
        found = bench.beside(heads, np.random.default_rng(seed))
        assert [layer for layer, _ in found] == [18, 17, 17]
        assert len(set(found)) == 3
        assert not set(found) & set(heads)


class Known:
    class config:
        vocab_size = 97

    def encode(self, text):
        return torch.tensor([[0]])


def test_random_tokens_come_twice(bench):
    rows = bench.said_twice(Known(), (3, 4), 7)
    assert rows.shape == (2, 15)
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 1:8] == rows[:, 8:]).all()
    assert (rows[0] != rows[1]).any()


def test_what_was_measured():
    found = result("generation")
    copying, sinks, agreement = found["copying"], found["sinks"]["perplexity"], found["agreement"]
    assert copying["without"]["top"]["4"] > copying["second_copy"] + 4
    assert np.median(copying["without"]["random"]["4"]) < copying["second_copy"] + 0.5
    for whole, window, kept in zip(sinks["all"], sinks["window"], sinks["window_and_4_sinks"], strict=True):
        assert window > 1.7 * whole
        assert kept < 1.25 * whole
    assert agreement["other_number"]["accuracy"] > 0.8
    assert np.shape(found["distances"]["distance"]) == np.shape(agreement["effects"]) == (30, 9)
