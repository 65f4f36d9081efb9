"""Checkpoints are read as they were written, checked, small, and loaded by name."""

import json
import sys
from importlib.resources import files

import pytest
import torch

from compare import assert_equal
from mha.data import DataUnavailable, checkpoint, checkpoints
from mha.data.checkpoints import save_checkpoint

COMMITTED = files("mha.data.checkpoints")
NAMES = sorted(entry.name[:-5] for entry in COMMITTED.iterdir() if entry.name.endswith(".json"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with one checkpoint, in the place of the committed ones."""
    monkeypatch.setattr(checkpoints, "files", lambda package: tmp_path)
    save_checkpoint("small", {"d_model": 3, "words": ["café"]}, model())
    return tmp_path


def model():
    torch.manual_seed(1)
    one = torch.nn.Sequential(torch.nn.Embedding(3, 5), torch.nn.Linear(5, 3))
    one[1].weight = one[0].weight  # tied
    one.register_buffer("count", torch.tensor(70001))
    return one


def test_what_is_written_is_read(here):
    config, weights = checkpoint("small")
    assert config == {"d_model": 3, "words": ["café"]}
    one = model()
    assert weights["count"] == 70001, "integers are not rounded"
    for name in ("0.weight", "1.weight", "1.bias"):
        assert weights[name].dtype == torch.float32
        assert_equal(weights[name], one.state_dict()[name].half().float())
    one.load_state_dict(weights)
    assert one[0].weight is one[1].weight


def test_a_changed_file_is_refused(here):
    file = here / "small.safetensors"
    stored = bytearray(file.read_bytes())
    stored[-1] ^= 1
    file.write_bytes(stored)
    with pytest.raises(
        DataUnavailable, match=r"small.safetensors was changed: expected sha256 \w{64}, got \w{64}; inst"
    ):
        checkpoint("small")
    file.write_bytes(b"")
    with pytest.raises(DataUnavailable, match=r"small.safetensors was changed"):
        checkpoint("small")
    file.unlink()
    with pytest.raises(
        DataUnavailable, match=r"small.safetensors is not there, only its configuration is; install mha"
    ):
        checkpoint("small")


def test_a_checkpoint_without_a_hash_is_refused(here):
    (here / "small.json").write_text("{}")
    with pytest.raises(DataUnavailable, match="was changed: expected sha256 absent, got"):
        checkpoint("small")


def test_what_half_precision_cannot_hold_is_refused(here):
    one = model()
    with torch.no_grad():
        one[1].bias[1] = 7e4
    with pytest.raises(ValueError, match=r"1.bias holds numbers that float16 cannot: expected at most 65504"):
        save_checkpoint("large", {}, one)
    assert not (here / "large.safetensors").exists()


def test_an_unknown_name(here):
    with pytest.raises(ValueError, match=r"name is 'smal': expected one of small; did you mean 'small'?"):
        checkpoint("smal")


def test_an_absent_package(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(DataUnavailable, match=r"safetensors.torch is not installed: install the extra `data`"):
        checkpoint("small")


@pytest.mark.parametrize("name", NAMES)
def test_committed_ones_are_whole(name):
    config, weights = checkpoint(name)
    assert config
    assert all(bool(torch.isfinite(x).all()) for x in weights.values())
    stored = json.loads((COMMITTED / f"{name}.json").read_text(encoding="utf-8"))
    assert list(stored) == [*config, "sha256"]


def test_all_together_are_small_and_nothing_else_is_there():
    entries = [entry for entry in COMMITTED.iterdir() if entry.name not in ("__init__.py", "__pycache__")]
    assert sorted(entry.name for entry in entries) == sorted(
        f"{n}.{end}" for n in NAMES for end in ("json", "safetensors")
    )
    assert sum(len(entry.read_bytes()) for entry in entries) <= 8_000_000
