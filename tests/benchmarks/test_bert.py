"""The bench of reading both ways: the same gaps for all, counts that are probabilities, pairs half and half."""

import importlib
import math
from pathlib import Path

import pytest
import torch

from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"
VOCAB = 13  # the last is [MASK]


@pytest.fixture
def bench(monkeypatch):
    """The script, with fewer steps."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("bert")
    monkeypatch.setattr(script, "TUNING_STEPS", 1)
    monkeypatch.setattr(script, "RUNS", {name: (rule, 2) for name, (rule, _) in script.RUNS.items()})
    for name, value in {"BATCH": 4, "WINDOWS": 64}.items():
        monkeypatch.setattr(script.tasks, name, value)
    return script


@pytest.fixture
def ids():
    return 3 + torch.randint(VOCAB - 4, (499,), generator=torch.Generator().manual_seed(0))


def test_all_rules_begin_with_the_same_weights_and_read_the_same_stretches(bench, ids):
    models = [bench.tasks.model_of(ids, VOCAB, bench.tasks.LENGTH, seed=5) for _ in range(2)]
    for one, other in zip(*(model.state_dict().values() for model in models), strict=True):
        assert (one == other).all()
    corrupted, targets = bench.tasks.gapped(ids, VOCAB, bench.RULES["both"])[0](7)
    before, after = bench.tasks.gapped(ids, VOCAB, None)[0](7)
    whole = torch.cat([before[:, :1], after], dim=1)
    assert (torch.where(targets >= 0, targets, corrupted) == whole).all()


def test_a_gap_hides_what_stood_there(bench, ids):
    model = bench.tasks.model_of(ids, VOCAB, bench.tasks.LENGTH, seed=0)
    both, left = (bench.tasks.gap_losses(model, ids, causal=causal)[0] for causal in (False, True))
    assert both.shape == (bench.tasks.LENGTH,)
    assert left.shape == (bench.tasks.LENGTH - 1,)
    p = bench.tasks.frequencies(ids, VOCAB)
    unigram = -(p[3:] / p[:-1].sum()).log().mean()  # a model that has learned nothing guesses by frequency
    assert (both - unigram).abs().max() < 0.7


def test_counts_are_those_by_hand(bench):
    ids = torch.tensor([3, 4] * 200 + [3])
    found = bench.tasks.counted(ids, ids, VOCAB)
    assert abs(found["one"]["loss"] - math.log(2)) < 0.05
    assert found["left"]["loss"] < 0.02
    assert found["both"]["loss"] < 0.001
    assert found["left"]["right"] == found["both"]["right"] == 1


def test_pairs_follow_or_do_not(bench):
    texts = [3 + 1000 * n + torch.arange(200) for n in range(7)]
    tokens, segments, labels = bench.tasks.pairs(texts, 60, torch.Generator().manual_seed(1))
    first, second = tokens[:, 1 : bench.tasks.PIECE + 1], tokens[:, bench.tasks.PIECE + 2 : -1]
    follows = second[:, 0] == first[:, -1] + 1
    assert (follows == (labels == 0)).all()
    assert 15 < labels.sum() < 45
    assert (segments.sum(1) == bench.tasks.PIECE + 1).all()
    assert (tokens[:, [0, bench.tasks.PIECE + 1, -1]] == torch.tensor([1, 2, 2])).all()


def test_what_is_in_the_log_is_not_run_again(bench, ids, tmp_path, monkeypatch):
    log, data = tmp_path / "logs/log.jsonl", (ids, ids, VOCAB)
    bench.run_gap("left", 0, log, data)
    lines = bench.kept(log)
    assert [line["kind"] for line in lines] == ["tuning"] * len(bench.RATES) + ["gap"]
    monkeypatch.setattr(bench, "train", lambda *inputs, **options: pytest.fail("trained again"))
    bench.run_gap("left", 0, log, data)
    assert bench.kept(log) == lines


def test_the_committed_result_is_the_summary_of_the_committed_log(bench):
    committed = result("bert")
    told = bench.summary(bench.kept(bench.LOG))
    assert {key: committed[key] for key in told} == told
    lines = bench.kept(bench.LOG)
    assert len([line for line in lines if line["kind"] == "gap"]) == 3 * len(bench.RUNS)
    assert len([line for line in lines if line["kind"] == "pairs"]) == 3
