"""The bench of norm orders: both begin with the same weights and batches, and a failed run is counted as one."""

import importlib
import math
from pathlib import Path

import pytest
import torch

from compare import assert_equal

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The script, at a length of 8."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("norm_order")
    for name, value in {"LENGTH": 8, "BATCH": 2, "GRADIENT_DRAWS": 2}.items():
        monkeypatch.setattr(script, name, value)
    return script


@pytest.fixture
def ids():
    training, held_out = torch.randint(11, (2, 200), generator=torch.Generator().manual_seed(0))
    return training, held_out, 11


def test_both_orders_begin_with_the_same_weights(bench):
    models = []
    for order in bench.ORDERS:
        torch.manual_seed(3)
        models.append(bench.Model(order, 2, 11))
    post, pre = (dict(model.named_parameters()) for model in models)
    assert set(pre) - set(post) == {"norm.weight", "norm.bias"}
    for name, value in post.items():
        assert_equal(pre[name].detach(), value.detach(), rtol=0)


def test_the_orders_are_those_of_the_papers(bench):
    post, pre = (bench.Model(order, 1, 11) for order in bench.ORDERS)
    ids = torch.randint(11, (2, 8))
    states = []
    for model in (post, pre):
        model.read.register_forward_pre_hook(lambda part, given: states.append(given[0]))
        model.blocks[0].register_forward_hook(lambda part, given, output: states.append(output))
        model(ids)
    after, read = states[0].detach(), states[1].detach()
    assert_equal(after, read, rtol=0, label="post-norm has no norm behind its last block")
    assert_equal(after.std(-1, correction=0), torch.ones(2, 8), rtol=1e-3, label="its stream has one size")
    grown, read = states[2].detach(), states[3].detach()
    assert (grown.std(-1, correction=0) - 1).abs().max() > 0.05
    assert_equal(read.std(-1, correction=0), torch.ones(2, 8), rtol=1e-3, label="pre-norm has a last norm")


@pytest.mark.parametrize("order", ["post", "pre"])
def test_a_few_steps_and_gradients_of_each_block(bench, ids, order):
    assert 0 < bench.train(order, 2, True, 1e-3, 0, ids, steps=2) < 5
    found = bench.gradients(order, 3, ids)
    assert len(found) == 3
    assert min(found) > 0


def test_what_leaves_the_numbers_is_infinite(bench, ids, monkeypatch):
    monkeypatch.setattr(bench, "loss_of", lambda model, *batch: torch.tensor(math.nan))
    assert bench.train("post", 1, False, 1e-3, 0, ids, steps=2) == math.inf


def test_the_summary_counts_failures_and_takes_the_best_median(bench, monkeypatch):
    monkeypatch.setattr(bench, "DEPTHS", (2,))
    monkeypatch.setattr(bench, "RATES", (0.1, 0.2))
    losses = {0.1: (2.0, 2.9, 2.2), 0.2: (1.0, None, 3.0)}
    runs = [
        {"order": order, "depth": 2, "warm_up": warm_up, "rate": rate, "seed": seed, "loss": loss}
        for order in bench.ORDERS for warm_up in (True, False)
        for rate, three in losses.items() for seed, loss in enumerate(three)
    ]  # fmt: skip
    row = bench.summary(runs, floor=3.0)[0]
    assert (row["best_rate"], row["median"], row["band"]) == (0.1, 2.2, [2.0, 2.9])
    assert row["failed"] == {0.1: 1, 0.2: 2}
