"""The Flash widget: JavaScript says what `mha.reference` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference
from mha.widgets import Flash

TOKENS = ["[CLS]", "a", "b<i>", 'c"&', "d'", "interrogation", "日本"]


def widget(seed, n=7, width=5, **settings):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(0, 1.3, (2, n, width))
    return Flash(TOKENS[:n], q, k, rng.normal(size=(n, 2)), **settings)


def cases():
    rng = np.random.default_rng(5)
    for seed in range(20):
        causal = bool(rng.integers(2))
        yield widget(seed, side=int(rng.integers(1, 5)), step=int(rng.integers(1, 20)), causal=causal)
    yield widget(21, n=2, side=4)
    yield widget(22, side=1, step=49)
    yield widget(23, side=4, step=49, causal=True)


MOVES = {"step": 4, "side": 2, "causal": True}


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget(1)], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("flash.js", "kept.total * factor", "kept.total"), id="sum not rescaled"),
        pytest.param(("flash.js", "old * factor", "old"), id="values not rescaled"),
        pytest.param(("flash.js", "Math.max(kept.top, ...scores)", "Math.max(...scores)"), id="largest forgotten"),
        pytest.param(("flash.js", "j < i + side", "j <= i + side"), id="a tile too many"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_control_that_moves_nothing_is_seen(run_node):
    fault = ("flash.js", "Math.min(state.step, walk.length)", "1")
    passed, log = run_node([widget(1)], moves=MOVES, fault=fault)
    assert not passed, log


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", [1, 2, 3, 4])
def test_after_the_last_tile_the_numbers_are_those_of_attention(side, causal):
    shown = widget(3, side=side, causal=causal, step=49)
    q, k, v = (np.array(x)[None] for x in (shown.q, shown.k, shown.v))
    options = {"mask": masks.causal if causal else None}
    found = shown.compute()
    assert found["ready"]
    assert_equal(found["weights"], reference.attention_weights(q, k, **options)[0], atol=1e-14)
    assert_equal(found["output"], reference.attention(q, k, v, **options)[0, found["query"] :], atol=1e-14)


def test_causal_skips_tiles_and_says_so():
    assert "0 of 9 tiles are skipped" in widget(1).alt()
    assert "causal; 3 of 9 tiles are skipped" in widget(1, causal=True).alt()


def test_sentence_says_what_is_known():
    shown = widget(4, step=2)
    assert shown.sentence().startswith("Step 2 of 9: queries 0 to 2 take in keys 3 to 5. For query 0, “[CLS]”, ")
    assert shown.sentence().endswith("More keys are to come.")
    assert widget(4, step=3).sentence().endswith("Its output is exact now.")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0}, "step is 0, expected a value from 1 to 49"),
        ({"side": 5}, "side is 5, expected a value from 1 to 4"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(1, **settings)


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        (np.ones((5, 3)), np.ones((7, 3)), np.ones((7, 2)), r"q has shape \(5, 3\), expected \(7, d\)"),
        (np.ones((7, 3)), np.ones((7, 2)), np.ones((7, 2)), r"k has shape \(7, 2\), expected \(7, 3\)"),
        (np.ones((7, 3)), np.ones((7, 3)), np.ones((7, 3)), r"v has shape \(7, 3\), expected \(7, 2\)"),
    ],
)
def test_wrong_arrays_are_refused(q, k, v, message):
    with pytest.raises(ValueError, match=message):
        Flash(TOKENS, q, k, v)
