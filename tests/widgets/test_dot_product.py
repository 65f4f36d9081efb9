"""The DotProduct widget: JavaScript says what `mha.reference` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference
from mha.widgets import DotProduct

TOKENS = ["[CLS]", "a", "b<i>", 'c"&', "d'", "interrogation", "日本"]


def widget(seed, tokens=TOKENS, width=13, **settings):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(0, 1.3, (2, len(tokens), width))
    return DotProduct(tokens, q, k, **settings)


def cases():
    rng = np.random.default_rng(5)
    for seed in range(24):
        yield widget(
            seed,
            d_k=int(rng.choice([5, 13])),
            scale=bool(rng.integers(2)),
            temperature=round(float(rng.uniform(0.1, 4)), 1),
            mask=str(rng.choice(["none", "causal", "window"])),
            radius=int(rng.integers(0, 7)),
            query=int(rng.integers(0, 7)),
        )
    yield widget(29, width=7, tokens=["only"])
    yield widget(30, width=1, mask="causal", query=0)
    yield widget(31, mask="window", radius=0, query=3)


MOVES = {"d_k": 3, "scale": False, "temperature": 2.3, "mask": "causal", "query": 4}


def test_javascript_equals_reference(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget(1)], moves=MOVES)
    assert passed, log
    passed, log = run_node([widget(1, mask="window")], moves={"radius": 1})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("common.js", "  return { scores, weights };", TRANSPOSED), id="softmax over the wrong axis")
        for TRANSPOSED in [
            "  const across = k.map((_, j) => softmax(scores.map((row) => row[j])));\n"
            "  return { scores, weights: scores.map((row, i) => row.map((_, j) => across[j][i])) };"
        ]
    ]
    + [
        pytest.param(("dot_product.js", "causal: (i, j) => j <= i", "causal: (i, j) => j >= i"), id="inverted mask"),
        pytest.param(("dot_product.js", "1 / Math.sqrt(d_k)", "1 / d_k"), id="scale by d"),
        pytest.param(("dot_product.js", "row.slice(0, d_k)", "row"), id="a width that cuts nothing"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_control_that_moves_nothing_is_seen(run_node):
    fault = ("dot_product.js", "(scale ? 1 / Math.sqrt(d_k) : 1) / temperature", "scale ? 1 / Math.sqrt(d_k) : 1")
    passed, log = run_node([widget(1)], moves=MOVES, fault=fault)
    assert not passed
    assert "not ok" in log
    assert "temperature moves the picture" in log


def test_numbers_are_those_of_attention():
    shown = widget(3, d_k=5, mask="window", radius=2, temperature=2.0)
    q, k = np.array(shown.q)[:, :5], np.array(shown.k)[:, :5]
    expected = reference.attention_weights(q[None], k[None], mask=masks.window(2, 2), scale=0.5 / np.sqrt(5))[0]
    found = shown.compute()
    assert_equal(found["weights"], expected, rtol=1e-15)
    visible = np.abs(np.subtract.outer(range(7), range(7))) <= 2
    assert_equal(found["variance"], np.var((q @ k.T * 0.5 / np.sqrt(5))[visible]), rtol=1e-12)


def test_one_visible_key_has_no_entropy():
    found = widget(2, mask="causal", query=0).compute()
    assert (found["entropy"], found["limit"]) == (0, 0)
    assert (
        widget(2, mask="causal", query=0)
        .sentence()
        .startswith("Query 0, “[CLS]”, looks hardest at key 0, “[CLS]”: 100 %")
    )


def test_alt_says_settings_and_finding():
    alt = widget(4, scale=False, temperature=0.5, mask="window", radius=3, query=1).alt()
    assert alt.startswith(
        "7 tokens, d_k = 13, not divided by √d_k, temperature 0.5, window of ± 3. Query 1, “a”, looks hardest"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query": 7}, "query is 7, expected a value from 0 to 6"),
        ({"d_k": 14}, "d_k is 14, expected a value from 1 to 13"),
        ({"temperature": 0.0}, "temperature is 0.0, expected a value from 0.1 to 4"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"radius": -1}, "radius is -1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    q, k = np.ones((2, 7, 13))
    with pytest.raises(ValueError, match=message):
        DotProduct(TOKENS, q, k, **settings)
    shown = DotProduct(TOKENS, q, k)
    with pytest.raises(ValueError, match=message):
        setattr(shown, *next(iter(settings.items())))


@pytest.mark.parametrize(
    ("tokens", "q", "k", "message"),
    [
        (TOKENS, np.ones((5, 3)), np.ones((7, 3)), r"q has shape \(5, 3\), expected \(7, d_k\)"),
        (TOKENS, np.ones((7, 3)), np.ones((7, 2)), r"k has shape \(7, 2\), expected \(7, 3\)"),
        (TOKENS, np.ones((1, 7, 3)), np.ones((7, 3)), r"q has shape \(1, 7, 3\)"),
        (TOKENS, np.full((7, 3), np.nan), np.ones((7, 3)), "q holds NaN"),
        ([], np.ones((0, 3)), np.ones((0, 3)), "tokens has 0 entries, expected at least 1"),
    ],
)
def test_wrong_arrays_are_refused(tokens, q, k, message):
    with pytest.raises(ValueError, match=message):
        DotProduct(tokens, q, k)
