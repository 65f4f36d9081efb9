"""Which heads go, what is counted of a model that lost them, and what the committed numbers must show."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def test_the_ways_choose_as_they_say(load):
    bench = load("pruned_speed")
    counts = [9] * 5
    for number in (9, 18):
        chosen = {
            way: getattr(bench, way)(counts, 3, number, np.random.default_rng(3))
            for way in ("at_random", "spread", "in_groups")
        }
        for way, heads in chosen.items():
            assert len(set(heads)) == number, way
            left = [9 - sum(layer == one for layer, _ in heads) for one in range(5)]
            assert min(left) >= 1, way
        left = [9 - sum(layer == one for layer, _ in chosen["spread"]) for one in range(5)]
        assert max(left) - min(left) <= 1
        groups = {(layer, head // 3) for layer, head in chosen["in_groups"]}
        assert len(groups) == number // 3


@pytest.mark.parametrize("name", ["pruned_speed", "capture_overhead"])
def test_it_runs(load, name, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [name, "--tiny", "--out", str(tmp_path / "found.json")])
    load(name).main()
    models = json.loads((tmp_path / "found.json").read_text())["models"]
    assert set(models) == {"minilm", "smollm2"}
    if name == "pruned_speed":
        whole, cut = (models["smollm2"][variant] for variant in ("whole 0 %", "groups 40 %"))
        assert (whole["heads"], cut["heads"]) == (27, 18)
        assert cut["cache_bytes"] * 3 == whole["cache_bytes"] * 2


def test_what_was_measured():
    for name, by_variant in result("pruned_speed")["models"].items():
        whole = by_variant["whole 0 %"]
        part = "attention of encoding" if name == "minilm" else "attention of prompt"
        for entry in by_variant.values():
            left = entry["heads"] / whole["heads"]
            assert abs(left - (1 - entry["share"])) < 0.01
            assert entry["attention_bytes"] <= whole["attention_bytes"]
            if entry["share"] == 0.4:
                assert entry["median_seconds"][part] < whole["median_seconds"][part]
    for entry in result("capture_overhead")["models"].values():
        assert entry["median_ratio"] <= result("capture_overhead")["limit"]
