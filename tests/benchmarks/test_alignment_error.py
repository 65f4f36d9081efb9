"""The bench of alignments: links of the right step, none in training, and a result that is the summary of its log."""

import importlib
from pathlib import Path

import pytest
import torch

from compare import assert_equal
from mha.data import load, result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def rows():
    return load("greek_english").to_list()


@pytest.fixture
def bench(monkeypatch):
    """The script, with few steps."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("alignment_error")
    few = {"transformer": 2, "recurrent": 2}
    small = {"BATCH": 3, "STEPS": few, "TUNING_STEPS": 1, "EVERY": 1, "EXAMPLES": ("Matthew 1:1",)}
    for name, value in small.items():
        monkeypatch.setattr(script, name, value)
    return script


@pytest.fixture
def verses(bench, rows):
    return bench.Verses(rows[::40])


class OneHead:
    """A model whose weights are given."""

    def __init__(self, maps):
        self.maps = maps

    def attention_maps(self, source, target, *, source_keep):
        assert source_keep.shape == source.shape
        return self.maps[None, : len(source), None, : target.shape[1], : source.shape[1]]


def test_a_word_is_linked_in_the_step_that_writes_it_and_in_the_next(bench, rows):
    verses = bench.Verses([row for row in rows if row["verse"] == "John 11:35"])
    maps = torch.tensor([[[0.1, 0.2, 0.7], [0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.4, 0.3]]])  # BOS jesus wept EOS
    links = bench.aligned(OneHead(maps), verses)
    assert links == {"0.0 writes": [{(2, 0), (0, 1)}], "0.0 reads": [{(0, 0), (1, 1)}]}
    assert [verses.gold, links["0.0 writes"]] == [[{(0, 1), (2, 0)}]] * 2


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_a_model_is_trained_and_scored(bench, verses, name, monkeypatch):
    lines = []
    monkeypatch.setattr(bench, "keep", lambda log, line: lines.append(line))
    monkeypatch.setattr(bench, "kept", lambda log: lines)
    bench.run(name, 0, verses)
    assert [line["kind"] for line in lines] == ["tuning"] * len(bench.RATES) + ["run"]
    assert lines[-1]["chosen"] in lines[-1]["error"]
    assert all(0 < error <= 1 for error in lines[-1]["error"].values())
    greek, english = verses.greek[0], verses.english[0]
    weights = torch.tensor(lines[-1]["weights"]["Matthew 1:1"])
    assert weights.shape == (len(english), len(greek))
    assert_equal(weights.sum(1), torch.ones(len(english)), atol=0.01, label="weights")
    table = bench.summary(lines)[name]
    assert table["error_of_chosen"]["mean"] == lines[-1]["error"][lines[-1]["chosen"]]


def test_no_link_reaches_the_training(bench, verses):
    model, held_out = bench.trained("recurrent", 1, 1e-3, 2, verses)
    verses.gold = [set() for _ in verses.gold]
    again, same = bench.trained("recurrent", 1, 1e-3, 2, verses)
    assert held_out == same
    for (name, weight), other in zip(model.named_parameters(), again.parameters(), strict=True):
        assert_equal(weight, other, label=name)


def test_simple_methods_are_better_than_chance(bench, rows):
    verses = bench.Verses(rows[::8])
    simple = bench.by_ibm1(verses)
    pairs = zip(verses.greek, bench.diagonal(verses), strict=True)
    backwards = [{(len(greek) - 1 - i, j) for i, j in links} for greek, links in pairs]
    assert verses.error(bench.diagonal(verses)) < verses.error(backwards) - 0.05
    assert set(simple) == {"ibm1", "ibm1_reversed", "ibm1_intersection"}
    assert verses.error(verses.gold) == 0


def test_the_committed_result_is_the_summary_of_the_committed_log(bench):
    committed = result("alignment_error")
    assert committed["models"] == bench.summary(bench.kept(bench.LOG))
    for name in bench.STEPS:
        runs = [line for line in bench.kept(bench.LOG) if line["kind"] == "run" and line["model"] == name]
        assert len({line["seed"] for line in runs}) >= 2
        assert {line["rate"] for line in runs} == {bench.tuned(name, None)}
    assert committed["examples"].keys() == runs[0]["weights"].keys()
