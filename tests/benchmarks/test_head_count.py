"""The bench of the number of heads: the same parameters and batches for all, and the rate that a whole run favours."""

import importlib
from pathlib import Path

import pytest

from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """The script, with few steps and a log of its own."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("head_count")
    for name, value in {"STEPS": 2, "D_MODEL": 16, "D_MLP": 8, "LOG": tmp_path / "log.jsonl"}.items():
        monkeypatch.setattr(script, name, value)
    return script


def test_the_rate_of_the_lowest_validation_loss(bench, monkeypatch):
    losses = {1e-3: 2.0, 3e-3: 1.5, 1e-2: 1.7}
    asked = []

    def run(task, heads, seed, rate):
        asked.append((heads, seed, rate))
        return {"loss": losses[rate]}

    monkeypatch.setattr(bench, "run", run)
    assert bench.tuned(None, 4) == 3e-3
    assert asked == [(4, 0, rate) for rate in bench.RATES]


def test_what_is_in_the_log_is_not_run_again(bench, monkeypatch):
    line = {"kind": "run", "heads": 2, "seed": 1, "rate": 1e-3, "loss": 0.5}
    bench.keep(bench.LOG, line)
    monkeypatch.setattr(bench, "trained", None)
    assert bench.run(None, 2, 1, 1e-3)["loss"] == 0.5


def test_a_band_reaches_from_the_lowest_to_the_highest(bench):
    scores = {"loss": 1.0, "phoneme_error": 0.2, "word_error": 0.5, "rate": 1e-3, "parameters": 7}
    lines = [scores | {"heads": heads, "loss": loss} for heads in bench.HEADS for loss in (1.0, 3.0, 1.4)]
    row = bench.summary(lines)[2]
    assert row["heads"] == bench.HEADS[2]
    assert row["loss"] == {"mean": 1.8, "low": 1.0, "high": 3.0}


def test_what_was_measured():
    found = result("head_count")
    rows, by_rate = found["summary"], found["by_rate"]
    assert by_rate["0.001"]["1"] < by_rate["0.001"]["16"], "at a low rate more heads lose"
    assert by_rate["0.01"]["1"] > by_rate["0.01"]["16"], "at a high rate they win"
    assert [row["heads"] for row in rows] == [1, 2, 4, 8, 16]
    assert len({row["parameters"] for row in rows}) == 1
    assert all(row["d_head"] * row["heads"] == 64 for row in rows)
