"""The bench of bugs: padding is not asked for, both losses agree where all is right, and weights are ported."""

import importlib
import math
from pathlib import Path

import pytest
import torch

from compare import assert_equal
from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The script, at a length of 12."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("bugs")
    for name, value in {"LENGTH": 12, "BATCH": 2, "PADDING": 3, "HELD_OUT": 2}.items():
        monkeypatch.setattr(script, name, value)
    return script


@pytest.fixture
def ids():
    training, held_out = torch.randint(11, (2, 200), generator=torch.Generator().manual_seed(0))
    return training, held_out, 11


def test_padding_stands_in_front_of_the_first_sample_and_is_not_asked_for(bench):
    inputs, targets, keep = bench.padded(torch.arange(1, 27).reshape(2, 13))
    assert keep.sum(1).tolist() == [9, 12]
    assert (targets[0, :3] == -100).all()
    assert targets[0, 3] == 5
    assert inputs[1].tolist() == list(range(14, 26))


def test_whole_and_one_by_one_are_the_same_loss(bench, ids):
    model, losses = bench.train(bench.Decoder, 0, ids, steps=3)
    rows = bench.held_out(ids)
    assert len(losses) == 3
    assert_equal(float(bench.one_by_one(model, rows).mean()), bench.whole(model, rows), rtol=1e-5)


def test_the_weights_of_the_right_model_are_ported(bench, ids):
    names = ("Decoder", "Alibi", "PositionsRestart", "AlibiTurned", "NoLastNorm")
    found = {run["decoder"]: run for run in bench.measure(0, names, ids, steps=5)}
    assert found["Decoder"]["ported"] == found["Decoder"]["seen"]
    assert found["PositionsRestart"]["ported"] == found["Decoder"]["seen"]
    assert found["NoLastNorm"]["ported"] != found["Decoder"]["seen"]
    assert found["AlibiTurned"]["ported"] not in (found["Alibi"]["seen"], found["AlibiTurned"]["seen"])


def test_what_leaves_the_numbers_has_no_loss(bench, ids):
    _, losses = bench.train(bench.DECODERS["NanCoveredUp"], 0, ids, steps=3)
    assert math.isfinite(losses[0])
    assert math.isnan(losses[2])
    assert bench.number(losses[2]) is None


def test_the_committed_results_have_every_decoder_and_seed(bench):
    measured = result("bugs")
    assert measured["decoders"].keys() == bench.DECODERS.keys()
    assert all(len(found["seen"]) == 3 for found in measured["decoders"].values())
