"""The Sampling widget: JavaScript says what `mha.reference.sampling` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha.data import capture
from mha.reference.sampling import next_token_probabilities
from mha.widgets import Sampling


def cases():
    rng = np.random.default_rng(7)
    for number in range(24):
        options = {
            "temperature": round(float(rng.uniform(0.1, 2)), 1),
            "top_k": int(rng.choice([0, rng.integers(1, 41)])),
            "top_p": round(float(rng.choice([1, rng.uniform(0.05, 1)])), 2),
            "min_p": round(float(rng.choice([0, rng.uniform(0, 0.5)])), 2),
        }
        yield Sampling(prompt=number % 4, **options)
    yield Sampling(prompt=2, temperature=0, top_k=3, top_p=0.5, min_p=0.2)
    yield Sampling(prompt=3, temperature=2, top_p=0.95)  # ends in the middle of a group


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    moves = {"prompt": 1, "temperature": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.2}
    passed, log = run_node([Sampling(prompt=3)], moves=moves)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("sampling.js", "(x - top) / temperature", "(x - top) * temperature"), id="temperature"),
        pytest.param(("sampling.js", "logits[top_k - 1]", "logits[top_k]"), id="one too many"),
        pytest.param(("sampling.js", "before < top_p ? Math.min", "before + p[i] < top_p ? Math.min"), id="crossing"),
        pytest.param(("sampling.js", "Math.ceil((top_p", "Math.floor((top_p"), id="group"),
        pytest.param(("sampling.js", "min_p * Math.max(...p)", "min_p"), id="min-p of the whole"),
        pytest.param(("sampling.js", "shown(after, left)", "shown(after, counts)"), id="others"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_numbers_are_those_of_the_model():
    found, result = Sampling().compute(), capture("smollm2_next_token")
    powers = np.exp(result["logits"][0])
    others = (result["group_counts"] * np.exp(result["group_logits"][0])).sum()
    assert_equal(found["before"][:12], (powers / (powers.sum() + others))[:12], rtol=1e-12)
    assert_equal(found["before"], found["after"])
    assert found["left"] == 49152
    named = next_token_probabilities(result["logits"][0], top_k=7)
    assert_equal(Sampling(top_k=7).compute()["after"][:7], named[:7], rtol=1e-12)


def test_alt_says_settings_and_finding():
    assert Sampling(temperature=0).alt() == (
        "The next token of SmolLM2, the 12 most probable ones and all others together. After “The capital of France is "
        "…”, at temperature 0.0, the next token is drawn among 1 of 49152. The first one, “␣Paris”, has 100.0 % of the "
        "probability; the entropy of the draw is 0.00 nats."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": 4}, "prompt is 4, expected a value from 0 to 3"),
        ({"temperature": 2.5}, "temperature is 2.5, expected a value from 0 to 2"),
        ({"top_k": 41}, "top_k is 41, expected a value from 0 to 40"),
        ({"top_p": 0.0}, "top_p is 0.0, expected a value from 0.05 to 1"),
        ({"min_p": 0.7}, "min_p is 0.7, expected a value from 0 to 0.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)
