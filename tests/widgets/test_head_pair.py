"""The HeadPair widget: JavaScript says what `mha.analysis.similarity` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference
from mha.analysis.similarity import js_distance, pattern_distances
from mha.widgets import HeadPair
from mha.widgets.head_maps import unpacked

TOKENS = ["<start>", "a", "b<i>", 'c"&', "d'", "interrogation", "日本"]


def maps(seed, layers=5, heads=3, n=7, sharp=3.0):
    q, k = np.random.default_rng(seed).normal(0, sharp, (2, layers, heads, n, 11))
    return reference.attention_weights(q, k, mask=masks.causal)


def widget(seed, layers=5, heads=3, **settings):
    return HeadPair(TOKENS, maps(seed, layers, heads), **settings)


def cases():
    rng = np.random.default_rng(5)
    for seed in range(8):
        a, b = ((int(rng.integers(0, 5)), int(rng.integers(0, 3))) for _ in range(2))
        yield widget(seed, a=a, b=b, start=bool(seed % 2))
    yield widget(23, layers=1, heads=13, a=(0, 12))
    yield HeadPair(list("wxyz"), maps(31, n=4), b=(2, 1), start=True)
    sinking = np.zeros((2, 3, 7, 7))
    sinking[..., 0] = 1
    sinking[1] = np.eye(7)
    yield HeadPair(TOKENS, sinking, a=(0, 1), b=(1, 2))


def test_javascript_equals_analysis(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    moves = {"layer_a": 3, "head_a": 2, "layer_b": 4, "head_b": 1, "start": True}
    passed, log = run_node([widget(1)], moves=moves)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("Math.log2(p)", "Math.log(p)"), id="nats"),
        pytest.param(("return Math.sqrt(Math.min", "return (Math.min"), id="no root"),
        pytest.param(("rows.slice(1).map", "rows.map"), id="a row without a choice counts"),
        pytest.param(("row.map((w) => w / (total || 1))", "row"), id="rows not divided"),
        pytest.param(("place !== first", "true"), id="a head is the nearest to itself"),
        pytest.param(("map.slice(1).map((row) => row.slice(1))", "map"), id="the start token counts"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=("head_pair.js", *fault))
    assert not passed
    assert "numbers" in log


def test_numbers_are_those_of_analysis():
    shown = widget(2, a=(3, 1), b=(4, 2))
    kept = unpacked(shown.maps, 5, 3, 7).reshape(15, 7, 7)[:, 1:, 1:]
    visible = np.tri(6, dtype=bool)
    found, all_pairs = shown.compute(), pattern_distances(kept, visible=visible)
    assert_equal(found["distance"], js_distance(kept[10], kept[14], visible=visible), atol=1e-7)
    others = np.delete(all_pairs[10], 10)
    assert_equal(found["nearest_distance"], others.min(), atol=1e-7)
    assert_equal(found["median"], np.median(others), atol=1e-7)
    assert 0 < found["nearest_distance"] < found["shuffled"] < 1


def test_alt_names_both_heads_and_the_nearest():
    shown = np.broadcast_to(np.eye(7), (2, 3, 7, 7)).copy()
    shown[1, 2] = np.eye(7, k=-1) + np.eye(7) * (np.arange(7) == 0)
    alt = HeadPair(TOKENS, shown, a=(0, 0), b=(1, 2)).alt()
    assert alt.startswith("The maps of two of 6 heads on 7 tokens")
    assert "Layer 0, head 0 and layer 1, head 2: distance 1.00 (the start token is left out)" in alt
    assert "The head most like the first is layer 0, head 1, at 0.00" in alt


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": (5, 0)}, "layer_a is 5, expected a value from 0 to 4"),
        ({"b": (0, 3)}, "head_b is 3, expected a value from 0 to 2"),
    ],
)
def test_limits(given, message):
    with pytest.raises(ValueError, match=message):
        widget(1, **given)
