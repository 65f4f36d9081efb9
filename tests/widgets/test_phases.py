"""The Phases widget: JavaScript says what `mha.reference` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.widgets import Phases
from mha.widgets.phases import BASES, SCHEMES, grouped

Q, K = np.random.default_rng(3).normal(size=(2, 64))


def widget(**settings):
    return Phases(Q, K, **settings)


def cases():
    rng = np.random.default_rng(5)
    for n in range(18):
        yield widget(
            scheme=SCHEMES[n % 3],
            width=int(rng.choice([8, 16, 32, 64])),
            base=int(rng.choice(BASES)),
            position=int(rng.integers(0, 1001)),
            distance=int(rng.integers(-64, 65)),
        )
    yield Phases(np.zeros(8), np.ones(8), scheme="rotary_other")


MOVES = {"scheme": "rotary_same", "width": 16, "base": 100, "position": 3, "distance": -5}


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget()], moves=MOVES)
    assert passed, log
    passed, log = run_node([widget(scheme="rotary_same")], moves={"scheme": "rotary_other"})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("phases.js", "(-2 * c) / width", "-c / width"), id="frequencies of half the slope"),
        pytest.param(("phases.js", "up * sin + right * cos", "up * sin - right * cos"), id="mirrored"),
        pytest.param(("phases.js", "x[x.length / 2 + c], x[c]", "x[2 * c + 1], x[2 * c]"), id="other layout"),
        pytest.param(("phases.js", "position + n - FARTHEST", "n - FARTHEST"), id="distance from the first position"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_control_that_moves_nothing_is_seen(run_node):
    passed, log = run_node(
        [widget()], moves=MOVES, fault=("phases.js", "turn(key, position + distance)", "turn(key, 0)")
    )
    assert not passed, log


@pytest.mark.parametrize("width", [8, 64])
def test_numbers_are_those_of_the_encoding(width):
    found = widget(width=width, base=500_000, position=13, distance=-9).compute()
    rows = reference.sinusoidal(np.array([13, 4]), width, base=500_000)
    assert_equal(found["query"].ravel(), rows[0], atol=1e-14, label="sine to the right, cosine up")
    assert_equal(found["cosine"], rows[0] @ rows[1] / (width / 2), atol=1e-13)
    assert_equal(found["cosines"], found["cosines"][::-1], atol=1e-13, label="before and after look alike")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_curve_stays_where_it_is(scheme):
    near, far = (widget(scheme=scheme, position=p).compute()["cosines"] for p in (0, 1000))
    assert_equal(far, near, atol=1e-11)
    if scheme != "rotary_other":
        assert_equal(near[64], 1.0, atol=1e-14, label="a vector and itself")


def test_narrower_vectors_are_the_first_pairs():
    pairs = Q.round(3).reshape(2, 32)[:, :4].reshape(1, 1, 1, 8)
    turned = reference.rotate(pairs, np.array([20]))[0, 0, 0]
    found = widget(scheme="rotary_same", width=8).compute()
    assert_equal(found["query"], turned.reshape(2, 4).T[:, ::-1], atol=1e-14)


def test_alt_says_settings_and_finding():
    assert Phases(Q, K, width=8, base=100, position=3, distance=0).alt() == (
        "Scheme: sinusoids. Clocks of 4 pairs, width 8, base 100, at positions 3 and 3. One turn takes from 6.3 to 199 "
        "positions. At distance 0 the two vectors have the cosine 1.00, wherever the first one stands."
    )
    assert grouped(1_234_567.8) == "1\u202f234\u202f568"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheme": "alibi"}, "scheme is 'alibi', expected one of"),
        ({"width": 12}, r"width is 12, expected one of \[8, 16, 32, 64\]"),
        ({"base": 7}, "base is 7, expected one of"),
        ({"position": -1}, "position is -1, expected a value from 0 to 1000"),
        ({"distance": 65}, "distance is 65, expected a value from -64 to 64"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(**settings)


@pytest.mark.parametrize(
    ("q", "k", "message"),
    [
        (Q[:10], K[:10], "q has width 10, expected one of 8, 16, 32, 64"),
        (Q, K[:8], r"k has shape \(8,\), expected \(64\)"),
        (Q * np.nan, K, "q holds NaN"),
    ],
)
def test_wrong_vectors_are_refused(q, k, message):
    with pytest.raises(ValueError, match=message):
        Phases(q, k)
