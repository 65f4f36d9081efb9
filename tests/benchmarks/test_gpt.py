"""A loss a character does not depend on how the text was cut, and the summary is that of the log."""

import importlib
import json
import math
from pathlib import Path

import pytest
import torch

from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("gpt")


class Uniform(torch.nn.Module):
    """Every token is equally likely."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size

    def forward(self, tokens):
        return torch.zeros(*tokens.shape, self.vocab_size)


def test_nats_a_character(bench):
    reading = bench.Reading("characters")
    tokens = reading.test[:2000]
    expected = math.log(reading.tokenizer.vocab_size)
    assert abs(reading.nats_per_character(Uniform(reading.tokenizer.vocab_size), tokens) - expected) < 1e-5


def test_parts_of_the_book_do_not_overlap(bench):
    reading = bench.Reading("characters")
    start = "".join(reading.tokenizer.decode(reading.test[:200].tolist()))
    book = reading.tokenizer.decode(reading.train.tolist()) + reading.tokenizer.decode(reading.validation.tolist())
    assert len(reading.validation) == len(reading.test) == bench.HELD_OUT
    assert start not in book


def test_the_result_is_the_log(bench):
    lines = [json.loads(line) for line in bench.LOG.read_text(encoding="utf-8").splitlines()]
    found = result("gpt")
    for name, told in found["short"].items():
        tests = [x["test"] for x in lines if (x["tokens"], x["rate"], x["steps"]) == (name, told["rate"], bench.STEPS)]
        assert len(tests) == len(bench.SEEDS)
        assert told["nats_per_character"] == {"low": min(tests), "high": max(tests)}
    assert found["long"] in lines
    assert found["short"]["byte pairs"]["nats_per_character"]["high"] < found["by_frequency"]
