"""The Dilution widget: JavaScript says what `mha.analysis.dilution` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.widgets import Dilution

MOVES = {"exponent": 3, "margin": 4.5, "spread": 2.25, "grows": True}


def cases():
    rng = np.random.default_rng(6)
    for _ in range(8):
        numbers = {"margin": rng.integers(41) / 2, "spread": rng.integers(13) / 4}
        yield Dilution(exponent=int(rng.integers(1, 21)), grows=bool(rng.integers(2)), **numbers)
    yield Dilution(exponent=1, margin=0, spread=3)
    yield Dilution(exponent=20, margin=20, spread=3, grows=True)


def test_javascript_equals_the_package(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Dilution()], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("dilution.js", "spread ** 2 / 2 - margin", "-margin"), id="no spread"),
        pytest.param(("dilution.js", "below(top - spread)) / below(top)", "1) / below(top)"), id="not cut"),
        pytest.param(("dilution.js", "0.5 ** (1 / n)", "1 - 1 / n"), id="not the median"),
        pytest.param(("dilution.js", "(e + 1) / TRAINED", "e / TRAINED"), id="another trained length"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_the_needle_has_its_share_of_the_softmax():
    scores = np.zeros(64)
    scores[5] = 3.5
    found = Dilution(exponent=6, margin=3.5, spread=0).compute()["needle"][5]
    assert_equal(found, reference.softmax(scores)[5], rtol=1e-12)


def test_a_growing_scale_is_as_given_at_the_trained_length():
    plain, grown = (Dilution(grows=grows).compute() for grows in (False, True))
    for name in ("needle", "largest"):
        assert plain[name][9] == grown[name][9]
        assert plain[name][19] < grown[name][19]


@pytest.mark.parametrize("settings", [{"exponent": 0}, {"exponent": 21}, {"margin": -0.5}, {"spread": 3.25}])
def test_settings_have_limits(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} is {next(iter(settings.values()))}, expected"):
        Dilution(**settings)
