"""The Heads widget: JavaScript says what `mha.reference` and `mha.cost` say, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import cost, reference
from mha.widgets import Heads
from mha.widgets.heads import amount

TOKENS = ["[CLS]", "a", "b<i>", 'c"&', "d'", "interrogation", "日本"]


def widget(seed, heads=3, d_head=8, **settings):
    q, k = np.random.default_rng(seed).normal(0, 1.3, (2, heads, len(TOKENS), d_head))
    return Heads(TOKENS, q, k, **settings)


def cases():
    rng = np.random.default_rng(5)
    for seed in range(20):
        yield widget(
            seed,
            num_heads=int(rng.choice([1, 2, 3, 4, 6, 8, 12, 24])),
            length=int(rng.integers(2, 8)),
            head=int(rng.integers(0, 24)),
            counted_width=int(rng.choice([24, 384, 768, 1536, 12288])),
            counted_length=int(rng.choice([0, 512, 2048, 8192, 131072])),
        )
    yield widget(23, heads=7, d_head=5)


MOVES = {"num_heads": 4, "length": 5, "head": 2, "counted_width": 768, "counted_length": 2048}


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget(1)], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("heads.js", "h * d_head, (h + 1) * d_head", "h, h + d_head"), id="wrong columns"),
        pytest.param(
            ("heads.js", "1 / Math.sqrt(d_head)", "1 / Math.sqrt(q[0].length)"), id="scale of the whole width"
        ),
        pytest.param(("heads.js", "mixing: 4 * n", "mixing: 2 * n"), id="half the multiplications"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_control_that_moves_nothing_is_seen(run_node):
    passed, log = run_node([widget(1)], moves=MOVES, fault=("heads.js", "Math.min(state.head, num_heads - 1)", "0"))
    assert not passed, log


def test_weights_are_those_of_each_head():
    q, k = np.round(np.random.default_rng(2).normal(size=(2, 3, 7, 8)), 3)
    found = Heads(TOKENS, q, k, length=5).compute()
    assert_equal(found["weights"], reference.attention_weights(q[:, :5], k[:, :5]), rtol=1e-12)
    whole = Heads(TOKENS, q, k, num_heads=1).compute()
    joined = [np.concatenate(list(x), axis=-1)[None] for x in (q, k)]
    assert_equal(whole["weights"], reference.attention_weights(*joined), rtol=1e-12)


@pytest.mark.parametrize("heads", [1, 2, 12])
def test_counts_are_those_of_cost(heads):
    found = widget(1, num_heads=heads, counted_width=768, counted_length=2048).compute()
    assert found["parameters"] == cost.attention_parameters(768, heads, bias=False)
    assert found["projection"] + found["mixing"] == cost.attention_flops(2048, 768, heads)
    assert found["memory"] == heads * 2048**2


def test_split_that_was_not_trained_is_called_a_what_if():
    assert "This is the split the model was trained with." in widget(1).alt()
    assert "trained with 3 heads: this split is a what-if" in widget(1, num_heads=4).alt()


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1\u202f000"),
        (589824, "589\u202f824"),
        (10_000_000, "10.0\u202fM"),
        (603979776, "604\u202fM"),
        (9.1e9, "9.10\u202fG"),
        (158e12, "158\u202fT"),
        (2.5e15, "2500\u202fT"),
    ],
)
def test_amounts_are_short(x, text):
    assert amount(x, widget(1).words) == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 5}, r"num_heads is 5, expected one of \[1, 2, 3, 4, 6, 8, 12, 24\]"),
        ({"length": 8}, "length is 8, expected a value from 2 to 7"),
        ({"head": -1}, "head is -1, expected a value from 0 to 23"),
        ({"counted_width": 100}, "counted_width is 100, expected one of"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(1, **settings)


@pytest.mark.parametrize(
    ("tokens", "q", "k", "message"),
    [
        (TOKENS, np.ones((3, 5, 8)), np.ones((3, 5, 8)), r"q has shape \(3, 5, 8\), expected \(heads, 7, d_head\)"),
        (TOKENS, np.ones((3, 7, 8)), np.ones((1, 7, 8)), r"k has shape \(1, 7, 8\), expected \(3, 7, 8\)"),
        (TOKENS, np.ones((7, 24)), np.ones((7, 24)), r"q has shape \(7, 24\)"),
        (["a"], np.ones((3, 1, 8)), np.ones((3, 1, 8)), "tokens has 1 entries, expected at least 2"),
    ],
)
def test_wrong_arrays_are_refused(tokens, q, k, message):
    with pytest.raises(ValueError, match=message):
        Heads(tokens, q, k)
