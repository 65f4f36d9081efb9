"""A training that is broken off anywhere goes on as if nothing had been."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from compare import assert_equal
from models.train import small

CHECKPOINT, LOG = "checkpoint.safetensors", "log.csv"


@pytest.fixture(scope="module")
def unbroken():
    return small.trained()


def assert_same(trained, unbroken, folder):
    """Compare weights and log bit for bit, and the log on disk with the log."""
    (model, log), (expected, expected_log) = trained, unbroken
    assert list(log) == list(expected_log)
    for name, value in expected.state_dict().items():
        assert_equal(model.state_dict()[name], value, label=name)
    with (folder / LOG).open(newline="") as file:
        assert [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)] == list(log)
    assert sorted(path.name for path in folder.iterdir()) == [CHECKPOINT, LOG]


def test_a_killed_process(tmp_path, unbroken):
    child = subprocess.run([sys.executable, small.__file__, str(tmp_path), "23"])
    assert child.returncode == -signal.SIGKILL
    assert (tmp_path / LOG).read_text().count("\n") == 1 + 2, "the head and the rows of steps 10 and 20"
    assert_same(small.trained(folder=tmp_path), unbroken, tmp_path)


class Killed(BaseException):
    """Stands for a kill: nothing of the package catches it."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("replacement", range(1, 11))
def test_killed_between_the_files(tmp_path, unbroken, monkeypatch, replacement, after):
    """There are five rows, and two files each: break off on both sides of each time that a file takes its place."""
    replace, calls = os.replace, []

    def deadly(source, target):
        calls.append(target)
        if len(calls) == replacement and not after:
            raise Killed
        replace(source, target)
        if len(calls) == replacement:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", deadly)
        with pytest.raises(Killed):
            small.trained(folder=tmp_path)
    assert_same(small.trained(folder=tmp_path), unbroken, tmp_path)


def test_a_checkpoint_that_is_half_written_is_never_read(tmp_path, unbroken, monkeypatch):
    import safetensors.torch

    def half(tensors, path, metadata):
        Path(path).write_bytes(b"\x07\x00")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", half)
        with pytest.raises(Killed):
            small.trained(folder=tmp_path)
    assert_same(small.trained(folder=tmp_path), unbroken, tmp_path)


def test_a_finished_training_is_only_read(tmp_path, unbroken):
    small.trained(folder=tmp_path)

    def no_batch(step):
        raise AssertionError(f"step {step} was made again")

    assert_same(small.trained(folder=tmp_path, batch=no_batch), unbroken, tmp_path)


def test_the_random_state_counts(tmp_path, unbroken, monkeypatch):
    """Without it the dropout of the later steps is another one: the comparison above would notice."""
    from mha.models.train import run

    def batch(step):
        if step == 23:
            raise Killed
        return small.batch(step)

    with pytest.raises(Killed):
        small.trained(folder=tmp_path, batch=batch)
    monkeypatch.setattr(run, "set_random_state", lambda state, device: None)
    _, log = small.trained(folder=tmp_path)
    assert log["loss"][:2] == unbroken[1]["loss"][:2]
    assert log["loss"][2:] != unbroken[1]["loss"][2:]


@pytest.mark.parametrize(
    ("name", "other"),
    list(
        {
            "steps": 46,
            "rate": 2e-2,
            "warmup": 6,
            "schedule": "constant",
            "clip": None,
            "weight_decay": 0.1,
            "seed": 1,
            "every": 5,
            "evaluate": None,
        }.items()
    ),
)
def test_another_training_is_refused_by_name(tmp_path, name, other):
    small.trained(folder=tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match=rf"^{name} is .*: expected .*, as in the training that {tmp_path} holds"):
        small.trained(folder=tmp_path, **{name: other})
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_another_model_is_refused_by_name(tmp_path, monkeypatch):
    small.trained(folder=tmp_path)
    monkeypatch.setattr(small, "model", lambda: torch.nn.Sequential(torch.nn.Linear(5, 3)))
    with pytest.raises(ValueError, match=r"the model's 0.bias is \(3,\): expected \(7,\), as in the training"):
        small.trained(folder=tmp_path, evaluate=lambda model: {"a": 0, "b": 0})


def test_tied_weights_and_double_precision(tmp_path):
    def tied():
        torch.manual_seed(5)
        embed, out = torch.nn.Embedding(7, 5), torch.nn.Linear(5, 7)
        out.weight = embed.weight
        return torch.nn.Sequential(embed, out).double()

    def go(folder, last=None):
        def batch(step):
            if step == last:
                raise Killed
            return torch.arange(7), torch.randint(0, 7, (7,), generator=torch.Generator().manual_seed(step))

        one = tied()
        return one, small.train(one, batch, small.loss, folder=folder, **small.SETTINGS)

    unbroken = go(None)
    with pytest.raises(Killed):
        go(tmp_path, 33)
    model, log = go(tmp_path)
    assert_same((model, log), unbroken, tmp_path)
    assert model[0].weight is model[1].weight


def test_settings_of_numpy_are_numbers(tmp_path):
    settings = {"rate": np.float32(0.25), "steps": np.int64(20), "seed": np.int64(1), "clip": np.float32(0.5)}
    first = small.trained(**settings, folder=tmp_path)[1]
    assert small.trained(**{name: value.item() for name, value in settings.items()}, folder=tmp_path)[1] == first


@pytest.mark.parametrize("content", ["nothing", "half", "another"])
def test_a_checkpoint_that_is_none_is_named(tmp_path, content):
    small.trained(folder=tmp_path, steps=1)
    path = tmp_path / CHECKPOINT
    whole = path.read_bytes()
    other = safetensors.torch.save({"weight": torch.zeros(2)})
    path.write_bytes({"nothing": b"", "half": whole[: len(whole) // 2], "another": other}[content])
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is not a file that a training wrote, or not all"):
        small.trained(folder=tmp_path, steps=1)
