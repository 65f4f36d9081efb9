"""The bench of redundancy: a pass from the middle is the whole pass, and what the committed numbers must show."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from compare import assert_equal
from mha.analysis import without_heads
from mha.data import result
from mha.models.bert import Bert, BertConfig
from mha.models.llama import Llama, LlamaConfig

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("redundancy")


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    model = Llama(LlamaConfig(23, 3, 12, 3, 1, 17, rope_base=1e4, norm_eps=1e-5)).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return model.requires_grad_(False)


@pytest.mark.parametrize("heads", [[], [(0, 2)], [(2, 1)], [(1, 0), (2, 2)]])
def test_a_pass_from_the_layer_on_is_the_whole_pass(bench, decoder, heads):
    rows = torch.randint(23, (2, 11), generator=torch.Generator().manual_seed(1))
    text = bench.Decoding(SimpleNamespace(model=decoder), rows, 5)

    def loss():
        return F.cross_entropy(decoder(rows[:, :-1])[:, 4:].mT, rows[:, 5:], reduction="none").mean(1).numpy()

    whole = loss()
    with without_heads(decoder, heads):
        assert_equal(text.change(heads), loss() - whole, atol=1e-12)


def test_only_silence_turns_a_vector(bench):
    torch.manual_seed(0)
    model = Bert(BertConfig(23, 2, 17, 2, 12, 3, 19, norm_eps=1e-5)).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    known = SimpleNamespace(model=model, encode=lambda text: torch.tensor([[ord(c) % 23 for c in text]]))
    with torch.inference_mode():
        texts = bench.Encoding(known, ["call me", "Ishmael"])
        assert_equal(np.linalg.norm(texts.whole, axis=1), np.ones(2), atol=1e-6)
        assert_equal(texts.turned([]), np.zeros(2), atol=1e-6)
        assert (texts.turned([(1, 2)]) > 1e-4).all()


def test_likeness_within_layers(bench, monkeypatch):
    pairs = np.arange(36).reshape(6, 6)
    triangle = pairs[np.triu_indices(6, 1)] * 5
    monkeypatch.setattr(bench, "capture", lambda name: {"outputs": triangle})
    found = bench.outputs_alike(3)
    assert_equal(found[1, 0, 2], pairs[3, 5] * 5 / 255)
    assert_equal(found[0, 1, 2], pairs[1, 2] * 5 / 255)


def test_sentences_are_from_all_over_the_book(bench):
    found = bench.chosen_sentences()
    assert len(set(found)) == 64
    assert all(bench.SHORTEST < len(sentence) <= bench.LONGEST + 1 for sentence in found)


def test_what_was_measured():
    found = result("redundancy")
    book, copying = (np.array(found[part]["effects"]) for part in ("book", "copying"))
    assert book.shape == copying.shape == (30, 9)
    assert np.array(found["sentences"]["effects"]).shape == (6, 12)
    assert_equal(np.mean(found["book"]["of_rows"], axis=0), book, atol=2e-5)
    assert (abs(book) < 0.01).mean() > 0.5
    assert book.max() > 20 * np.median(book)
    for pair in found["pairs"]["pairs"]:
        assert_equal(pair["alone"], [copying[tuple(head)] for head in pair["heads"]], atol=2e-3)
