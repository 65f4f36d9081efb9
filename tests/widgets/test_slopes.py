"""The Slopes widget: JavaScript says what `mha.reference` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.widgets import Slopes

MOVES = {"num_heads": 6, "head": 5, "back": 3, "content": 9}


def cases():
    rng = np.random.default_rng(4)
    for num_heads in (1, 6, 11, 16):
        settings = {"head": rng.integers(16), "back": rng.integers(64), "content": rng.integers(21)}
        yield Slopes(num_heads=num_heads, **{key: int(value) for key, value in settings.items()})
    yield Slopes()


def test_javascript_equals_the_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Slopes()], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("slopes.js", "(4 * (2 * h + 1)) / power", "(8 * (h + 1)) / power"), id="one series"),
        pytest.param(("slopes.js", "-slopes[head] * place", "slopes[head] * place"), id="sign"),
        pytest.param(("slopes.js", "place === back ? 0 : Math.exp(score)", "Math.exp(score)"), id="itself counted"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_weights_are_those_of_attention():
    """One query over 64 keys without content, the bias of the package and the extra score."""
    shown = Slopes(num_heads=12, head=9, back=17, content=5)
    at = np.arange(64)
    bias = reference.alibi_bias(reference.alibi_slopes(12), at[-1:], at)[9]
    bias[0, 63 - 17] += 5
    weights = reference.attention_weights(np.zeros((1, 1, 2)), np.zeros((1, 64, 2)), bias=bias)
    assert_equal(shown.compute()["weights"][::-1], weights[0, 0], rtol=1e-12)


def test_half_of_the_weight():
    shown = Slopes(num_heads=8, head=7, back=10, content=0)
    shown.content = round(shown.compute()["half"])
    assert abs(shown.compute()["weights"][10] - 0.5) < 0.13


def test_a_head_that_is_not_there_is_the_last_one():
    assert Slopes(num_heads=4, head=15).compute()["head"] == 3


@pytest.mark.parametrize("settings", [{"num_heads": 0}, {"num_heads": 17}, {"back": 64}, {"content": -1}])
def test_settings_have_limits(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} is {next(iter(settings.values()))}, expected"):
        Slopes(**settings)
