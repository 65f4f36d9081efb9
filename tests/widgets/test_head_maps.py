"""The HeadMaps widget: JavaScript says what `mha.analysis` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference
from mha.analysis import patterns
from mha.widgets import HeadMaps
from mha.widgets.head_maps import packed, unpacked

TOKENS = ["<start>", "a", "b<i>", 'c"&', "d'", "interrogation", "日本"]


def maps(seed, layers=5, heads=3, n=7, sharp=3.0):
    q, k = np.random.default_rng(seed).normal(0, sharp, (2, layers, heads, n, 11))
    return reference.attention_weights(q, k, mask=masks.causal)


def widget(seed, layers=5, heads=3, **settings):
    return HeadMaps(TOKENS, maps(seed, layers, heads), **settings)


def cases():
    rng = np.random.default_rng(5)
    for seed in range(18):
        yield widget(
            seed,
            measure=str(rng.choice(["previous", "sink", "entropy"])),
            layer=int(rng.integers(0, 5)),
            head=int(rng.integers(0, 3)),
            query=int(rng.integers(0, 7)),
        )
    yield widget(23, layers=1, heads=13, head=12)
    yield widget(29, layers=31, heads=1, layer=17, measure="entropy")
    yield HeadMaps(["x", "y"], maps(31, n=2), query=0)
    yield HeadMaps([str(i) for i in range(37)], maps(37, n=37), layer=3, query=19)
    yield HeadMaps(TOKENS, np.broadcast_to(np.eye(7), (2, 3, 7, 7)), measure="entropy")


MOVES = {"measure": "sink", "layer": 3, "head": 2, "query": 4}


def test_javascript_equals_analysis(run_node):
    passed, log = run_node(cases())
    assert passed, log


@pytest.mark.parametrize("measure", ["previous", "entropy"])
def test_every_setting_moves_the_picture(run_node, measure):
    passed, log = run_node([widget(1, measure=measure)], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("(i * (i + 1)) / 2 + j]", "(j * (2 * n - j - 1)) / 2 + i]"), id="triangle column after column"),
        pytest.param(
            ("map.slice(1).map((row, i) => row[i])", "map.slice(1).map((row, i) => row[i + 1])"), id="own token"
        ),
        pytest.param(
            ("map.slice(1).map((row, i) => row[i])", "map.map((row, i) => row[i - 1] ?? 0)"), id="row 0 counted"
        ),
        pytest.param(
            ("mean(map.slice(1).map((row) => row[0]))", "mean(map.map((row) => row[0]))"), id="row 0 is a sink"
        ),
        pytest.param(("row.map((w) => w / total)", "row"), id="rows that do not add up to 1"),
        pytest.param(("layer * num_heads + head", "head * num_layers + layer"), id="heads before layers"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=("head_maps.js", *fault))
    assert not passed
    assert "numbers" in log


def test_control_that_moves_nothing_is_seen(run_node):
    fault = ("head_maps.js", "const row = found.weights[query];", "const row = found.weights[0];")
    passed, log = run_node([widget(1)], moves=MOVES, fault=fault)
    assert not passed, log


def test_numbers_are_those_of_analysis():
    shown = widget(2, layer=3, head=1)
    kept = unpacked(shown.maps, 5, 3, 7)
    found = shown.compute()
    assert_equal(found["weights"], kept[3, 1], rtol=0)
    assert_equal(found["previous"], kept[..., range(1, 7), range(6)].mean(-1), rtol=1e-12)
    assert_equal(found["sink"], patterns.sink_score(kept), rtol=0)
    assert_equal(found["entropy"], patterns.entropy(kept), rtol=0)


@pytest.mark.parametrize("n", [2, 3, 19, 101])
def test_eight_bits_keep_a_share_to_half_a_percent(n):
    exact = maps(7, n=n)
    kept = unpacked(packed(exact), 5, 3, n)
    assert_equal(kept, exact, atol=0.005)
    assert_equal(kept.sum(-1), np.ones((5, 3, n)), rtol=1e-12)
    assert len(packed(exact)) == -(-15 * n * (n + 1) // 2 // 3) * 4


def test_equal_weights_have_the_entropy_of_the_limit():
    n = 7
    even = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    found = HeadMaps(TOKENS, np.broadcast_to(even, (2, 3, n, n)), measure="entropy").compute()
    assert_equal(found["entropy"], np.full((2, 3), found["limit"]), rtol=1e-12)
    assert (found["rank"], found["top"], found["best"]) == (1, [0, 0], 0)


def test_alt_says_the_highest_head_and_the_chosen_one():
    back = np.eye(7, k=-1) + np.eye(7, 7) * (np.arange(7) == 0)
    shown = np.broadcast_to(np.eye(7), (5, 3, 7, 7)).copy()
    shown[2, 1] = back
    alt = HeadMaps(TOKENS, shown, layer=2, head=1, query=5).alt()
    assert alt.startswith(
        "All 15 heads, 5 layers of 3, on 7 tokens; the highest previous-token score, 1.00, is that of"
    )
    assert "of layer 2, head 1. Layer 2, head 1: previous-token score 1.00, first-token score 0.17, entropy 0.00" in alt
    assert "number 1 of 15 by previous-token score, largest first. Query 5, “interrogation”" in alt
    assert alt.endswith("looks most at key 4, “d'”: 100 %.")


def test_last_query_is_shown_first():
    assert widget(1).query == 6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 5}, "layer is 5, expected a value from 0 to 4"),
        ({"head": -1}, "head is -1, expected a value from 0 to 2"),
        ({"query": 7}, "query is 7, expected a value from 0 to 6"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(1, **settings)


@pytest.mark.parametrize(
    ("tokens", "maps", "message"),
    [
        (TOKENS, np.ones((3, 7, 7)), r"patterns has shape \(3, 7, 7\), expected \(layers, heads, 7, 7\)"),
        (TOKENS, maps(1, n=5), r"patterns has shape \(5, 3, 5, 5\), expected \(layers, heads, 7, 7\)"),
        (TOKENS, np.zeros((0, 3, 7, 7)), r"patterns has shape \(0, 3, 7, 7\)"),
        (TOKENS, np.full((2, 3, 7, 7), 1 / 7), "patterns holds negative, NaN or future weights"),
        (TOKENS, np.full((2, 3, 7, 7), np.nan), "patterns holds negative, NaN or future weights"),
        (TOKENS, maps(1) / 2, "patterns has a row whose sum is off by 0.5, expected rows that add up to 1"),
        (["a"], np.ones((2, 3, 1, 1)), "tokens has 1 entries, expected at least 2"),
    ],
)
def test_wrong_arrays_are_refused(tokens, maps, message):
    with pytest.raises(ValueError, match=message):
        HeadMaps(tokens, maps)
