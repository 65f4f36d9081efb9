"""The bench of the bottleneck: phrases are whole words of their length, and the result is the summary of the log."""

import importlib
from pathlib import Path

import pytest
import torch

from mha.data import result
from mha.data.tokenizer import CharacterTokenizer

FOLDER = Path(__file__).parents[2] / "benchmarks"
TEXT = " the white whale swam before him as the monomaniac incarnation of all those malicious agencies "


@pytest.fixture
def bench(monkeypatch):
    """The script, with few steps and short phrases."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("context_bottleneck")
    small = {"TRAINED": (5, 9), "TESTED": (5, 9), "NUM_TESTED": 3, "BATCH": 2, "STEPS": 2, "TUNING_STEPS": 1}
    for name, value in small.items():
        monkeypatch.setattr(script, name, value)
    return script


@pytest.fixture
def tokenizer():
    return CharacterTokenizer([TEXT])


def test_phrases_are_whole_words(bench, tokenizer):
    phrases = bench.Phrases(TEXT, tokenizer)
    found = {tokenizer.decode(row) for row in phrases.draw(9, 50, torch.Generator().manual_seed(0)).tolist()}
    assert "the white" in found
    assert all(f" {phrase} " in TEXT and len(phrase) == 9 for phrase in found)


@pytest.mark.parametrize("name", ["none", "additive", "local"])
def test_a_model_is_trained_and_measured(bench, tokenizer, name):
    phrases = bench.Phrases(TEXT, tokenizer)
    model, loss = bench.train(name, 0, 1e-3, 2, phrases, tokenizer)
    found = bench.measured(model, phrases)
    assert 0 < loss < 10
    assert list(found["characters"]) == [5, 9]
    assert ("looks" in found) == (name != "none")
    source = phrases.draw(5, 3, torch.Generator().manual_seed(0))
    written = bench.written(model, source)
    target = torch.cat([torch.full((3, 1), bench.BOS), written[:, :-1]], 1)
    assert (model(source, target).argmax(-1) == written).all()


def test_the_plain_model_has_no_fewer_parameters(bench, tokenizer):
    sizes = {name: sum(p.numel() for p in bench.build(name, tokenizer).parameters()) for name in bench.MODELS}
    assert all(sizes["none"] >= sizes[name] for name in ("additive", "dot", "general", "concat", "local"))


def test_what_is_in_the_log_is_not_run_again(bench, tokenizer, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(bench, "save_checkpoint", lambda name, config, model: kept.append(name))
    log, phrases = tmp_path / "logs/log.jsonl", bench.Phrases(TEXT, tokenizer)
    bench.run("dot", 0, log, phrases, phrases, tokenizer)
    lines = bench.kept(log)
    assert kept == ["backwards_dot"]
    assert [line["kind"] for line in lines] == ["tuning"] * 3 + ["run"]
    monkeypatch.setattr(bench, "train", lambda *inputs: pytest.fail("trained again"))
    assert bench.tuned("dot", log, phrases, tokenizer) == lines[-1]["rate"]


def test_the_committed_result_is_the_summary_of_the_committed_log(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("context_bottleneck")
    committed, lines = result("context_bottleneck"), script.kept(script.LOG)
    assert committed["summary"] == script.summary(lines)["summary"]
    seeds = {(line["model"], line["seed"]) for line in lines if line["kind"] == "run"}
    for name in ("none", "additive", "dot", "general", "concat", "local"):
        assert len([seed for model, seed in seeds if model == name]) >= 3, name
        rates = {line["rate"] for line in lines if line["kind"] == "run" and line["model"] == name}
        assert rates == {script.tuned(name, script.LOG, None, None)}, name
