"""The pairs that are patched, the control, and what the committed numbers must show."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from compare import assert_equal
from exact import redraw
from mha.analysis import patching_effects, stream_patching_effects
from mha.data import result
from mha.models.llama import Llama, LlamaConfig

FOLDER = Path(__file__).parents[2] / "benchmarks"
CONFIG = LlamaConfig(
    vocab_size=41, num_layers=2, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("interpretability")


class Known:
    def encode(self, text):
        return torch.tensor([[0, *(sum(map(ord, word)) for word in text.split())]])


def test_pairs_differ_in_the_number_of_the_subject_alone(bench):
    texts, rows, swapped, signs = bench.hard_pairs(Known(), 24)
    assert len(set(texts)) == 24
    assert signs.tolist() == [-1, 1] * 12
    assert ((rows != swapped).nonzero()[:, 1] == 2).all()
    assert (rows != swapped).sum() == 24
    assert texts[0] == "The key to the cabinets"
    assert not texts[1].endswith("s"), "a plural subject and one noun between"


def test_the_control_keeps_the_numbers_of_each_matrix(bench):
    model = redraw(Llama(CONFIG), seed=3)
    other = bench.shuffled(model)
    for (name, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        assert (ours.flatten().sort().values == theirs.flatten().sort().values).all(), name
        assert (ours != theirs).any() == (ours.ndim > 1), name
    tokens = torch.tensor([[3, 1, 4]])
    assert (model(tokens) - other(tokens)).abs().max() > 0.1


def test_methods_agree_on_shapes_and_the_integral_is_nearly_complete(bench):
    model, tokens = redraw(Llama(CONFIG), seed=3, std=0.1), torch.randint(41, (2, 5))
    found, error = bench.token_scores(model, tokens, lambda logits: logits[:, -1, 7] - logits[:, -1, 3], 8)
    assert {values.shape for values in found.values()} == {(2, 5)}
    assert error < 0.05


def test_patches_from_the_layer_on_are_those_of_whole_passes(bench):
    model = redraw(Llama(CONFIG), seed=3, std=0.15).double()
    rows, swapped = torch.randint(41, (2, 2, 5), generator=torch.Generator().manual_seed(1))

    def score(logits):
        return logits[:, -1, 7] - logits[:, -1, 3]

    for positions in (None, [-1]):
        whole = patching_effects(model, rows, swapped, score, positions=positions, normalised=False)
        assert_equal(bench.head_changes(model, rows, swapped, score, positions), whole, atol=1e-12)
    whole = stream_patching_effects(model, rows, swapped, score, normalised=False)
    assert_equal(bench.stream_changes(model, rows, swapped, score), whole, atol=1e-12)


def test_spread_and_endings(bench):
    assert bench.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == {
        "mean": 3, "low": 1, "first_quarter": 2, "third_quarter": 4, "high": 5
    }  # fmt: skip
    words = ["walking", "walked", "slowly", "ships", "ring", "harpoon"]
    assert list(map(bench.ending, words)) == ["ing", "ed", "ly", "s", "", ""]


def test_what_was_measured():
    found = result("interpretability")
    first = found["tokens"]["subject_first"]["trained"]
    assert first["leave_one_out"] > first["last_layer"]
    assert np.shape(found["heads"]["trained"]["share"]) == np.shape(found["copying"]["trained"]["share"]) == (30, 9)
    copying = np.array(found["copying"]["trained"]["share"])
    assert copying[18, 6] == copying.max(), "the head with the highest induction score"
    ending = found["probes"]["ending"]
    for model in ("trained", "shuffled"):
        assert max(ending[model]["by_type"]["control"]) < 0.75, "what was not seen can only be guessed"
