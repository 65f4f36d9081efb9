"""The bench of position schemes: each trains, all begin alike, and the losses are those of the same characters."""

import importlib
import math
from pathlib import Path

import pytest
import torch

from mha import masks
from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The script, at a length of 8."""
    monkeypatch.syspath_prepend(FOLDER)
    model, script = importlib.import_module("character_model"), importlib.import_module("length_extrapolation")
    for name, value in {"LENGTH": 8, "BATCH": 2}.items():
        monkeypatch.setattr(model, name, value)
    for name, value in {"LENGTH": 8, "LENGTHS": (8, 16, 64), "BANDS": 8, "STEPS": 2, "TUNING_STEPS": 1}.items():
        monkeypatch.setattr(script, name, value)
    monkeypatch.setitem(script.SCHEMES, "learned", script.SCHEMES["learned"]._replace(longest=8))
    return script


@pytest.fixture
def ids():
    return torch.randint(11, (129,), generator=torch.Generator().manual_seed(0))


class Bigram(torch.nn.Module):
    """A model that reads the last character alone."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 11)

    def forward(self, ids, mask):
        return self.table(ids)


def test_each_scheme_trains_from_the_same_weights(bench, ids):
    models = [bench.train(scheme, 0, 0.0, 1, ids, 11)[0] for scheme in bench.SCHEMES.values()]
    shared = dict(models[0].named_parameters())
    for name, model in zip(bench.SCHEMES, models, strict=True):
        own = dict(model.named_parameters())
        assert all((own[key] == value).all() for key, value in shared.items()), name


def test_the_same_characters_at_each_length(bench, ids):
    torch.manual_seed(0)
    model = Bigram()
    means = [float(bench.losses(model, ids, length).mean()) for length in (8, 16, 64)]
    assert max(means) - min(means) < 1e-6


def test_a_window_of_the_trained_length_changes_nothing_at_that_length(bench, ids):
    model, _ = bench.train(bench.SCHEMES["rotary"], 0, 0.01, 2, ids, 11)
    whole, windowed = (bench.losses(model, ids, 16, masks.causal & mask) for mask in (masks.causal, masks.window_of(8)))
    assert (whole[:8] - windowed[:8]).abs().max() < 1e-6
    assert (whole[8:] - windowed[8:]).abs().max() > 1e-6


def test_a_scheme_is_measured_at_each_length_it_has(bench, ids):
    found = {name: bench.measured(bench.train(scheme, 0, 0.01, 1, ids, 11)[0], scheme, ids)
             for name, scheme in bench.SCHEMES.items()}  # fmt: skip
    assert found.pop("learned")["refused_from"] == 16
    for name, told in found.items():
        assert list(told["loss"]) == [8, 16, 64], name
        assert len(told["by_place"]) == 8, name
        assert all(math.isfinite(loss) for loss in told["loss"].values()), name


def test_a_learned_table_is_refused_past_its_end(bench, ids):
    model, _ = bench.train(bench.SCHEMES["learned"], 0, 0.01, 1, ids, 11)
    with pytest.raises(ValueError, match="0 to 7"):
        bench.losses(model, ids, 16)


@pytest.mark.parametrize("name", ["rotary_interpolated", "rotary_ntk", "rotary_yarn"])
def test_stretched_frequencies_are_the_own_ones_at_the_trained_length(bench, name):
    scheme = bench.STRETCHED[name](1.0)
    assert torch.tensor(scheme.frequencies, dtype=torch.float64).sub(bench.FREQUENCIES).abs().max() < 1e-12
    assert scheme.gain == 1.0


def test_what_is_in_the_log_is_not_run_again(bench, ids, tmp_path, monkeypatch):
    log, data = tmp_path / "logs/log.jsonl", (ids, ids, 11)
    bench.run("none", 0, log, data)
    lines = bench.kept(log)
    assert [line["kind"] for line in lines] == ["tuning"] * (len(lines) - 1) + ["run"]
    monkeypatch.setattr(bench, "train", lambda *inputs: pytest.fail("trained again"))
    assert bench.tuned("none", log, data) == lines[-1]["rate"]


def test_the_committed_result_is_the_summary_of_the_committed_log(bench):
    committed = result("length_extrapolation")
    told = bench.summary(bench.kept(bench.LOG))
    assert {key: committed[key] for key in told} == told
    seeds = {(line["scheme"], line["seed"]) for line in bench.kept(bench.LOG) if line["kind"] == "run"}
    assert {name for name, _ in seeds} == {*bench.SCHEMES, *bench.STRETCHED}
    assert all(len([1 for of, _ in seeds if of == name]) >= 3 for name in bench.SCHEMES)
