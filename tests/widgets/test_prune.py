"""The Prune widget: JavaScript says what Python says, and both what the model said without the heads."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.analysis import without_heads
from mha.data import DataUnavailable, capture, pretrained
from mha.widgets import Prune


def cases():
    rng = np.random.default_rng(7)
    yield from (Prune(prompt=int(rng.integers(3)), silenced=int(rng.integers(256))) for _ in range(20))
    yield from (Prune(prompt=prompt, silenced=silenced) for prompt, silenced in ((0, 0), (1, 255), (2, 128)))


def test_javascript_equals_python(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Prune()], moves={"prompt": 1, "silenced": 5})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("prune.js", "(silenced >> k) & 1", "(silenced >> (7 - k)) & 1"), id="from the other end"),
        pytest.param(("prune.js", "before: shares(0)", "before: shares(255)"), id="nothing left"),
        pytest.param(("prune.js", "after: shares(silenced)", "after: shares(1 << silenced)"), id="one head alone"),
        pytest.param(("prune.js", "1 - sum(named)", "sum(named)"), id="others"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_numbers_are_stored_ones():
    stored = capture("smollm2_pruned")["probabilities"]
    found = Prune(prompt=2, silenced=37).compute()
    assert_equal(found["after"][:-1], stored[2, 37], atol=5.1e-4)
    assert_equal(found["before"][:-1], stored[2, 0], atol=5.1e-4)
    assert_equal(sum(found["after"]), 1.0, atol=1e-3)
    heads = [f"{layer}.{head}" for layer, head in capture("smollm2_pruned")["heads"][2]]
    assert found["gone"] == [heads[k] for k in (0, 2, 5)]


@pytest.mark.pretrained
def test_numbers_are_what_the_model_says():
    try:
        known = pretrained("smollm2")
    except DataUnavailable as absent:
        pytest.skip(str(absent))
    found = capture("smollm2_pruned")
    named = np.reshape(found.tokens, (3, -1))
    for prompt, subset in ((0, 0), (1, 0b10000001), (2, 0b111)):
        heads = [tuple(pair) for k, pair in enumerate(found["heads"][prompt].tolist()) if subset >> k & 1]
        with torch.no_grad(), without_heads(known.model, heads):
            shares = known.model(known.encode(found.about["prompts"][prompt]))[0, -1].double().softmax(-1)
        words = [word.replace("␣", " ").replace("↵", "\n") for word in named[prompt]]
        numbers = [known.tokenizer.encode(word, add_special_tokens=False).ids for word in words]
        assert all(len(ids) == 1 for ids in numbers)
        assert_equal(found["probabilities"][prompt, subset], shares[np.ravel(numbers)], atol=1e-4)


def test_alt_says_settings_and_finding():
    told = Prune(silenced=1).alt()
    assert told.startswith("The next token of SmolLM2 with some of its heads switched off")
    assert "with 26.0 off, “␣are” has" in told
    assert "with no head off" in Prune().alt()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": 3}, "prompt is 3, expected a value from 0 to 2"),
        ({"silenced": 256}, "silenced is 256, expected a value from 0 to 255"),
        ({"silenced": -1}, "silenced is -1, expected a value from 0 to 255"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Prune(**settings)
