"""The bench of two translators: as many parameters, the same batches, scores by hand, nothing run twice."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from mha.data import result
from mha.data.tokenizer import BOS, EOS, PAD

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("translation")


@pytest.fixture
def task(bench):
    """Names of emoji, a few steps."""
    return replace(bench.TASKS["emoji"], steps=8, tuning_steps=1, batch=2, longest=4, tested=60)


def test_the_recurrent_model_has_as_many_parameters(bench):
    for task in bench.TASKS.values():
        sizes = [bench.count(build(task)) for build in bench.MODELS.values()]
        assert max(sizes) < 1.01 * min(sizes), task.name


def test_a_batch_is_that_of_its_seed_and_step(bench, task):
    first, again, other = task.batches(0)(3), task.batches(0)(3), task.batches(1)(3)
    assert all((one == two).all() for one, two in zip(first, again, strict=True))
    assert first[0].shape != other[0].shape or (first[0] != other[0]).any()


def test_a_batch_holds_whole_pairs_and_no_column_of_padding(bench, task):
    source, target = task.batches(0)(0)
    for row in source.tolist():
        assert [token for token in row if token != PAD][-1] == EOS
    for row in target.tolist():
        kept = [token for token in row if token != PAD]
        assert (kept[0], kept[-1]) == (BOS, EOS)
    assert (source != PAD).any(0).all()
    assert (target != PAD).any(0).all()


def test_scores_by_hand(bench):
    tasks = importlib.import_module("translation_tasks")
    found = tasks.phoneme_scores(["K AE T", "D AO G Z"], ["K AE T", "D AA G"])
    assert found == {"items": 2, "length": 3.5, "word_error": 0.5, "phoneme_error": 2 / 6}
    found = tasks.word_scores(["cara de gato", "pez"], ["cara de gato", "pez"])
    assert (found["items"], found["exact"]) == (2, 1.0)
    assert found["chrf"] == pytest.approx(100)


def test_what_is_in_the_log_is_not_run_again(bench, task, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "LOG", tmp_path / "logs/log.jsonl")
    saved = []
    monkeypatch.setattr(bench, "save_checkpoint", lambda *inputs: saved.append(inputs[0]))
    for name in bench.MODELS:
        bench.run(task, name, 0)
    kinds = [(line["kind"], line["model"]) for line in bench.kept(bench.LOG)]
    runs = [(kind, name) for name in bench.MODELS for kind in ["tuning"] * len(bench.RATES) + ["run"]]
    assert kinds == runs
    assert saved == ["emoji_translation"]
    monkeypatch.setattr(bench, "trained", lambda *inputs: pytest.fail("trained again"))
    bench.run(task, "transformer", 0)


def test_the_committed_result_is_the_summary_of_the_committed_log(bench):
    committed = result("translation")["tasks"]
    for name, task in bench.TASKS.items():
        told = bench.summary(task)
        assert {key: committed[name][key] for key in told} == told
