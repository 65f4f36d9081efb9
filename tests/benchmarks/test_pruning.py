"""The bench of pruning on a small decoder, and what the committed numbers must show."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from exact import redraw
from mha.analysis import without_heads
from mha.data import result
from mha.models.llama import Llama, LlamaConfig

FOLDER = Path(__file__).parents[2] / "benchmarks"
SIZES = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=36, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)


class Known:
    """A decoder with letters for tokens."""

    def __init__(self):
        self.config, self.model = SIZES, redraw(Llama(SIZES), seed=3)

    def encode(self, text):
        return torch.tensor([[0, *(3 + ord(letter) % 38 for letter in text)]])


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("pruning")


@pytest.fixture
def task(bench):
    return bench.Decoding(Known(), tiny=True)


def test_text_that_is_scored_is_not_measured(bench):
    assert not set(bench.SCORED) & set(bench.MEASURED)
    found = [bench.sentences(third, tiny=False) for third in (0, 2)]
    assert all(len(some) == bench.SENTENCES for some in found)
    assert not set(found[0]) & set(found[1])


def test_curves_are_the_qualities_of_the_orders(bench, task, monkeypatch):
    alone = np.random.default_rng(5).normal(size=(3, 6))
    monkeypatch.setattr(bench, "ablation", lambda task: {"ablation": alone.tolist()})  # the real one has 30 layers
    found = bench.curves("smollm2", task, bench.Log(), tiny=True)
    assert found["removed"] == [0, 2]
    assert found["quality"].keys() == {"book", "verses", "copying"}
    with without_heads(task.model, bench.pruning_order(found["scores"]["gradient"])[:2]):
        quality = task.quality()
    for kind, of in found["quality"].items():
        assert of["gradient"][1] == round(quality[kind], 4)
        assert {ys[0] for ys in of.values()} == {of["gradient"][0]}, "all begin with the whole model"


def test_copies_are_measured_on_the_second_copy(bench, task):
    rows, start = task.measured["copying"]
    logits = task.model(rows)[:, 4:-1].double().log_softmax(-1)
    expected = -logits.gather(-1, rows[:, 5:, None]).mean()
    assert start == 4
    assert abs(task.quality()["copying"] - float(expected.detach())) < 1e-5


def test_no_head_goes_twice_and_each_layer_keeps_one(bench, task):
    gone = bench.iterated(task, 9)
    assert len(set(gone)) == len(gone) == 15
    assert max(np.bincount([layer for layer, _ in gone])) == 5


def test_what_the_log_holds_is_not_measured_again(bench, tmp_path):
    path = tmp_path / "log.jsonl"
    first = bench.Log(path).get(("a", 3), lambda: {"loss": 1.5})
    again = bench.Log(path).get(("a", 3), lambda: pytest.fail("measured again"))
    assert first == again == {"loss": 1.5}


def test_what_was_measured():
    found = result("pruning")["smollm2"]
    place = found["removed"].index(54)
    loss = {order: ys[place] - ys[0] for order, ys in found["quality"]["book"].items()}
    random = [rise for order, rise in loss.items() if order.startswith("random")]
    assert len(random) == 5
    assert loss["gradient"] < 0.5 * min(random)
    assert min(loss["entropy"], loss["weight_norm"]) > 2 * max(random)
