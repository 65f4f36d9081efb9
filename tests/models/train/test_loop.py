"""What the training loop does to a model, against a loop written out here."""

import math
import os
import signal
import threading

import pytest
import torch

from compare import assert_equal
from models.train import small


def by_hand(steps, *, rates, clip, weight_decay, seed=0):
    """AdamW as its paper has it, a scalar rule for each weight, in double precision."""
    model, losses = small.model().double(), []
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in model.named_parameters()}
    torch.manual_seed(seed)
    for step in range(steps):
        x, y = small.batch(step)
        loss = small.loss(model, (x.double(), y))
        grads = dict(zip(moments, torch.autograd.grad(loss, list(model.parameters())), strict=True))
        length = math.sqrt(sum(float((g**2).sum()) for g in grads.values()))
        losses.append(float(loss.detach()))
        for name, p in model.named_parameters():
            g = grads[name] * min(1.0, clip / (length + 1e-6))
            first, second = moments[name]
            first.mul_(0.9).add_(0.1 * g)
            second.mul_(0.98).add_(0.02 * g * g)
            unbiased = first / (1 - 0.9 ** (step + 1)), second / (1 - 0.98 ** (step + 1))
            decay = weight_decay if name.endswith("weight") else 0.0
            with torch.no_grad():
                p -= rates[step] * (unbiased[0] / (unbiased[1].sqrt() + 1e-8) + decay * p)
    return model, losses


def double(batch):
    return batch[0].double(), batch[1]


@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_the_steps_are_those_of_the_papers(clip):
    rates = [0.01 * (step + 1) / 5 if step < 5 else 0.01 * math.sqrt(5 / (step + 1)) for step in range(17)]
    with torch.random.fork_rng(devices=[]):
        expected, losses = by_hand(17, rates=rates, clip=clip, weight_decay=0.3, seed=11)
    settings = {"steps": 17, "every": 1, "schedule": "inverse_sqrt", "clip": clip, "weight_decay": 0.3, "seed": 11}
    model = small.model().double()
    log = small.train(model, lambda step: double(small.batch(step)), small.loss, **small.SETTINGS | settings)
    assert_equal(log["loss"], losses, rtol=1e-12)
    assert_equal(log["rate"], rates, rtol=1e-12)
    for name, value in expected.state_dict().items():
        assert_equal(model.state_dict()[name], value, atol=1e-12, label=name)
    other, _ = by_hand(17, rates=rates, clip=clip, weight_decay=0.0, seed=11)
    assert not torch.allclose(model[0].weight, other[0].weight, atol=1e-6), "the decay can be seen"  # noqa: TID251


def test_a_row_is_the_mean_of_its_steps():
    _, rows = small.trained()
    _, steps = small.trained(every=1)
    assert rows["step"] == [10, 20, 30, 40, 45]
    for start, end, told in zip([0, 10, 20, 30, 40], rows["step"], rows["loss"], strict=True):
        assert_equal(told, sum(steps["loss"][start:end]) / (end - start), rtol=1e-15)
    assert rows[-1].keys() == {"step", "loss", "rate", "validation", "norm"}


def test_the_mode_of_the_model():
    seen = set()

    def loss(model, batch):
        seen.add(("loss", model.training, torch.is_grad_enabled()))
        return small.loss(model, batch)

    def evaluate(model):
        seen.add(("evaluate", model.training, torch.is_grad_enabled()))
        return {"nothing": 0.0}

    model, _ = small.trained(loss=loss, evaluate=evaluate)
    assert seen == {("loss", True, True), ("evaluate", False, False)}
    assert not model.training


def test_seeds():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    _, log = small.trained(seed=3)
    assert_equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert small.trained(seed=3)[1] == log
    assert small.trained(seed=4)[1] != log


def test_early_stop_keeps_the_best_weights(tmp_path):
    told = iter([3.0, 2.0, 1.0, 4.0, 1.0, 5.0, 0.0, 6.0])
    weights = []

    def evaluate(model):
        weights.append(model[0].weight.detach().clone())
        return {"error": next(told), "other": -len(weights)}

    model, log = small.trained(evaluate=evaluate, patience=3, every=5, folder=tmp_path)
    assert log["error"] == [3.0, 2.0, 1.0, 4.0, 1.0, 5.0]
    assert_equal(model[0].weight, weights[2])
    again, log_again = small.trained(evaluate=evaluate, patience=3, every=5, folder=tmp_path)
    assert log_again == log
    assert_equal(again[0].weight, weights[2], label="a stopped training stays stopped, at its best")


def test_best_weights_without_a_stop():
    told = iter([3.0, 1.0, 2.0, 4.0, 5.0])
    weights = []

    def evaluate(model):
        weights.append(model[0].weight.detach().clone())
        return {"error": next(told)}

    assert_equal(small.trained(evaluate=evaluate, patience=7)[0][0].weight, weights[1])
    told, weights[:] = iter([3.0, 1.0, 2.0, 4.0, 5.0]), []
    assert_equal(small.trained(evaluate=evaluate)[0][0].weight, weights[-1])


@pytest.fixture
def heard():
    """Ctrl-C as in the foreground: a shell that starts these tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("step", [0, 23, 29, small.STEPS - 1])
def test_an_interrupt_finishes_the_step_and_loses_nothing(tmp_path, step):
    unbroken, seen = small.trained()[1], []

    def batch(now):
        seen.append(now)
        if now == step:
            os.kill(os.getpid(), signal.SIGINT)
        return small.batch(now)

    with pytest.raises(KeyboardInterrupt):
        small.trained(batch=batch, folder=tmp_path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert seen == list(range(step + 1))
    later = []
    _, log = small.trained(batch=lambda now: later.append(now) or small.batch(now), folder=tmp_path)
    assert later == list(range(step + 1, small.STEPS))
    assert log == unbroken


@pytest.mark.usefixtures("heard")
def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def batch(step):
        os.kill(os.getpid(), signal.SIGINT)
        return small.batch(step)

    assert small.trained(batch=batch)[1] == small.trained()[1]


@pytest.mark.usefixtures("heard")
def test_a_second_interrupt_does_not_wait(tmp_path):
    def batch(step):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    with pytest.raises(KeyboardInterrupt):
        small.trained(batch=batch, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_in_another_thread():
    logs = []
    thread = threading.Thread(target=lambda: logs.append(small.trained()[1]))
    thread.start()
    thread.join()
    assert logs == [small.trained()[1]]


def test_a_loss_that_is_no_number_is_named_and_saves_nothing(tmp_path):
    def loss(model, batch):
        return small.loss(model, batch) * (math.nan if batch[0][0, 0] == small.batch(23)[0][0, 0] else 1)

    with pytest.raises(FloatingPointError, match="the loss is nan at step 23: expected a finite number; try a lower"):
        small.trained(loss=loss, folder=tmp_path)
    assert small.trained(folder=tmp_path)[1] == small.trained()[1]
    with pytest.raises(FloatingPointError, match="the norm of the gradient is inf at step 0"):
        small.trained(loss=lambda model, batch: (model[2].bias - model[2].bias.detach()).sum().sqrt())


@pytest.mark.parametrize("told", [{}, {"error": math.nan}], ids=["nothing", "nan"])
def test_patience_needs_a_number(told):
    small.trained(evaluate=lambda model: told)
    with pytest.raises(FloatingPointError, match="is nan at step 10: expected a number, for patience=2"):
        small.trained(evaluate=lambda model: told, patience=2)


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ({"loss": 1.0, "error": 2.0}, ValueError, r"evaluate\(model\) tells loss: expected other names"),
        ([{"a": 1.0}, {"b": 1.0}], ValueError, r"evaluate\(model\) tells b: expected a, as the rows before"),
        (1.0, TypeError, r"evaluate\(model\) is a float: expected a dict of floats"),
    ],
    ids=["a name of the log", "another name", "no dict"],
)
def test_what_evaluate_tells_has_names_of_its_own(told, error, message):
    rows = iter(told if isinstance(told, list) else [told])
    with pytest.raises(error, match=message):
        small.trained(evaluate=lambda model: next(rows))


def test_batches_of_any_form_reach_the_device():
    seen = []

    def loss(model, batch):
        seen.append((batch["x"].device.type, batch["rest"][0][0].device.type, batch["rest"][1]))
        return model(batch["x"].new_ones(5)).sum()

    def batch(step):
        return {"x": torch.ones(2, device="meta"), "rest": [(torch.ones(3, device="meta"),), "name"]}

    with pytest.raises(NotImplementedError, match="meta tensor"):
        small.trained(batch=batch, loss=loss)
    small.trained(batch=lambda step: {"x": torch.ones(2), "rest": [(torch.ones(3),), "name"]}, loss=loss, steps=1)
    assert seen == [("cpu", "cpu", "name")]


def test_frozen_weights_stay():
    model = small.model()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    small.train(model, small.batch, small.loss, **small.SETTINGS)
    assert_equal(model[0].weight, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": -1}, "steps is -1: expected at least 0"),
        ({"warmup": -1}, "warmup is -1: expected at least 0"),
        ({"every": 0}, "every is 0: expected at least 1"),
        ({"rate": -0.1}, "rate is -0.1: expected a positive number"),
        ({"rate": math.nan}, "rate is nan: expected a finite number"),
        ({"clip": 0.0}, "clip is 0.0: expected a positive number; None does not clip"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1: expected 0 or more"),
        ({"schedule": "linear"}, "schedule is 'linear': expected one of constant, cosine, inverse_sqrt"),
        ({"patience": 0}, "patience is 0: expected at least 1"),
        ({"patience": 2, "evaluate": None}, "evaluate is None: expected a function, for patience=2 to judge by"),
    ],
    ids=["steps", "warmup", "every", "rate", "rate-nan", "clip", "decay", "schedule", "patience", "evaluate"],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        small.trained(**settings)


def test_no_steps_at_all(tmp_path):
    model, log = small.trained(steps=0, folder=tmp_path)
    assert log == []
    assert log["loss"] == []
    assert_equal(model[0].weight, small.model()[0].weight)


def test_an_absent_package_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"mha.models.train needs tqdm: install mha with the extra \[train\]"):
        small.trained()


def test_quiet_where_there_is_no_terminal(capfd):
    small.trained(progress=True)
    assert capfd.readouterr() == ("", "")
