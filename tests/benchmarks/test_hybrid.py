"""The bench of hybrids: equal weights, a task whose answers are known, and a result that is the summary of its log."""

import importlib
from pathlib import Path

import pytest
import torch

from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The script, with little to test."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("hybrid")
    small = {"TIMES": (1, 2), "PAIRS": (4, 8), "TESTED": 4, "STEPS": {"recall": 2}, "TUNING_STEPS": {"recall": 2}}
    for name, value in small.items():
        monkeypatch.setattr(script, name, value)
    return script


def test_models_have_equal_numbers_of_weights(bench):
    for vocabulary in (bench.Recall.vocabulary, 96):
        counts = [sum(p.numel() for p in bench.made(name, vocabulary).parameters()) for name in bench.MODELS]
        assert max(counts) < 1.02 * min(counts)


@pytest.mark.parametrize(("length", "pairs"), [(32, 4), (64, 8), (64, 1)])
def test_every_question_has_its_answer(bench, length, pairs):
    tokens, places, answers = bench.recall_batch(torch.Generator().manual_seed(0), 5, length, pairs)
    assert tokens.shape == (5, length)
    for row, at, told in zip(tokens.tolist(), places.tolist(), answers.tolist(), strict=True):
        shown = row[: length - 2 * bench.QUESTIONS]
        pair = {key: row[n + 1] for n, key in enumerate(shown) if key < bench.KEYS}
        assert len(pair) == pairs
        assert [pair[row[n]] for n in at] == told == [row[n + 1] for n in at]
        assert sum(token >= bench.KEYS + bench.VALUES for token in shown) == len(shown) - 2 * pairs


class Knows(torch.nn.Module):
    """A model that recalls: it looks for the first place of the token before and says what stood there."""

    def forward(self, tokens):
        first = (tokens[:, :, None] == tokens[:, None]).int().argmax(-1)
        return torch.nn.functional.one_hot(tokens.gather(1, (first + 1).clamp(max=tokens.shape[1] - 1)), 32).float()


def test_who_recalls_scores_one_and_who_guesses_does_not(bench):
    assert set(bench.recall_scores(Knows())["length"].values()) == {1.0}
    assert set(bench.recall_scores(Knows())["pairs"].values()) == {1.0}
    constant = lambda tokens: torch.nn.functional.one_hot(0 * tokens + 20, 32).float()  # noqa: E731
    assert max(bench.recall_scores(constant)["length"].values()) < 0.5


def test_what_is_in_the_log_is_not_run_again(bench, tmp_path, monkeypatch):
    log, task = tmp_path / "logs/log.jsonl", bench.Recall()
    bench.run("hybrid", "recall", task, 0, log)
    lines = bench.kept(log)
    assert [line["kind"] for line in lines] == ["tuning"] * len(bench.RATES) + ["run"]
    monkeypatch.setattr(bench, "trained", lambda *given: pytest.fail("trained again"))
    assert bench.tuned("hybrid", "recall", task, log) == lines[-1]["rate"]
    told = bench.summary(lines)["recall"]["hybrid"]["length"]
    assert set(told) == {"32", "64"}


def test_only_caches_of_attention_grow(bench):
    found = bench.decoding((8, 16), 1)
    kept = {name: [told["numbers"] for told in found[name].values()] for name in found}
    assert kept["states"][0] == kept["states"][1]
    assert kept["attention"] == [2 * 2 * 64 * 9, 2 * 2 * 64 * 17]
    assert kept["hybrid"][1] - kept["hybrid"][0] == 2 * 64 * 8


def test_the_committed_result_is_the_summary_of_the_committed_log(bench):
    committed, told = result("hybrid"), bench.summary(bench.kept(bench.LOG))
    assert {key: committed[key] for key in told} == told
    for table in told.values():
        assert set(table) == set(bench.MODELS)
    runs = [line for line in bench.kept(bench.LOG) if line["kind"] == "run"]
    assert {(line["task"], line["model"], line["seed"]) for line in runs} == {
        (task, name, seed) for task in bench.TASKS for name in bench.MODELS for seed in bench.SEEDS
    }
