"""The Features widget: JavaScript says what `mha.reference` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.widgets import Features
from mha.widgets.features import COUNTS, estimate, percent

Q, K = np.random.default_rng(8).normal(size=(2, 6, 8))


def cases():
    rng = np.random.default_rng(9)
    for seed in range(2):
        n, d = int(rng.integers(1, 8)), int(rng.choice([4, 8, 16]))
        q, k = rng.normal(size=(2, n, d))
        yield Features(
            q, k, features=int(rng.choice(COUNTS)), norm_tenths=int(rng.integers(2, 31)), orthogonal=True, seed=seed
        )
    yield Features(Q, K)
    yield Features(Q, K, features=256, norm_tenths=30)


MOVES = {"features": 128, "norm_tenths": 20, "orthogonal": True}


def test_javascript_equals_the_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Features(Q, K)], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("features.js", "Math.exp(dot(w, x)", "Math.exp(0.9 * dot(w, x)"), id="another kernel"),
        pytest.param(("features.js", "(norm * x) / length", "x / length"), id="length 1"),
        pytest.param(("features.js", "draw * count,", "0 * count,"), id="draws overlap"),
        pytest.param(("features.js", "sum(draws) / draws.length", "sum(draws)"), id="sum over draws"),
        pytest.param(("features.js", "orthogonal: state.blocks", "orthogonal: state.independent"), id="one kind"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_estimate_is_the_performer():
    """The weights of the widget are those that the core of the package gives to the values of a unit matrix."""
    q, k = Features(Q, K, norm_tenths=12).rows()
    core = reference.Performer(32, 8, seed=5)
    values = np.eye(6)[None]
    assert_equal(estimate(q, k, core.directions), core(q[None], k[None], values, scale=1.0)[0], rtol=1e-12)


@pytest.mark.parametrize("norm", [3, 10, 20])
def test_the_error_is_of_all_draws(norm):
    shown = Features(Q, K, norm_tenths=norm, features=64)
    found, (q, k) = shown.compute(), shown.rows()
    exact = reference.attention_weights(q[None], k[None], scale=1.0)[0]
    assert_equal(found["exact"], exact, rtol=1e-13)
    draws = [estimate(q, k, shown.directions("independent")[at : at + 64]) for at in range(0, 256, 64)]
    mean = np.mean([((one - exact) ** 2).sum() for one in draws])
    assert_equal(found["error"], np.sqrt(mean / (exact**2).sum()), rtol=1e-13)
    assert_equal(found["error"], found["independent"][COUNTS.index(64)])
    assert_equal(found["other"], found["orthogonal"][COUNTS.index(64)])


def test_sentence_says_both_errors():
    shown = Features(Q, K, features=128, norm_tenths=5, orthogonal=True)
    found = shown.compute()
    assert shown.sentence() == (
        "With 128 features, orthogonal directions and vectors of length 0.5, the weights are off by "
        f"{percent(found['error'])} % in the root mean square (draws: 2); independent directions: "
        f"{percent(found['other'])} %."
    )
    assert shown.alt().startswith("6 queries and 6 keys of width 8, and 256 random directions. ")
    assert [percent(x) for x in (0.0123, 0.0994, 0.0996, 1.0)] == ["1.2", "9.9", "10", "100"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": 12}, r"features is 12, expected one of \[8, 16, 32, 64, 128, 256\]"),
        ({"norm_tenths": 31}, "norm_tenths is 31, expected a value from 2 to 30"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Features(Q, K, **settings)


def test_rows_that_have_no_direction_are_refused():
    with pytest.raises(ValueError, match="k has a row of zeros"):
        Features(Q, np.zeros_like(Q))
    with pytest.raises(ValueError, match="q has width 5, expected 4, 8 or 16"):
        Features(Q[:, :5], K[:, :5])
