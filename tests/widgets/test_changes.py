"""The Changes widget: JavaScript says what Python says, counts are those of captured models, faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha.data import capture
from mha.widgets import Changes
from mha.widgets.changes import rounded

WORDS, OTHERS = ["a", "b<i>", 'c"&', "interrogation"], ["x", "y'", "z", "日本"]


def widget(seed, **settings):
    rng = np.random.default_rng(seed)
    encoder, decoder = rng.exponential(40, (3, 4, 6)), rng.exponential(40, (3, 4, 5))
    encoder[0], decoder[:, 2, :3] = 0, 0
    return Changes(WORDS, OTHERS, encoder, decoder, encoder_layers=(0, 1, 2), decoder_layers=(0, 5, 10), **settings)


def real(**settings):
    found = capture("minilm_changes")
    moved = (100 * found[name] for name in ("encoder", "decoder"))
    layers = {name: found.about[name] for name in ("encoder_layers", "decoder_layers")}
    return Changes(found.tokens, found.about["others"], *moved, **layers, **settings)


def cases():
    for seed in range(8):
        yield widget(seed, depth=seed % 3, word=seed % 4)
    yield real(depth=1, word=4)
    yield Changes(["a"], ["b"], np.zeros((1, 1, 3)), np.zeros((1, 1, 2)), encoder_layers=[1], decoder_layers=[2])


def test_javascript_equals_python(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([real()], moves={"depth": 2, "word": 5})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("encoder: encoder[depth][word]", "encoder: encoder[word][depth]"), id="axes exchanged"),
        pytest.param(("x > 0", "x >= 0"), id="all have moved"),
        pytest.param(("decoder: decoder[depth][word]", "decoder: decoder[0][word]"), id="always the first depth"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node([widget(seed, depth=1, word=2) for seed in range(3)], fault=("changes.js", *fault))
    assert not passed
    assert "numbers" in log


@pytest.mark.parametrize("word", range(9))
def test_counts_are_those_of_the_captured_models(word):
    found = [real(depth=depth, word=word).compute() for depth in range(7)]
    assert [one["encoder_moved"] for one in found] == [1, *[11] * 6]
    assert [one["decoder_moved"] for one in found] == [1, *[9 - word] * 6]
    exact = capture("minilm_changes")["encoder"][3, word]
    assert_equal(found[3]["encoder"], 100 * exact.astype(float), atol=0.00051)


def test_zero_is_written_only_for_zero():
    assert [rounded(x) for x in (0, 0.001, 0.499, 0.5, 1.5, 342.7)] == ["0", "<1", "<1", "1", "2", "343"]


def test_alt_says_sentence_and_counts():
    assert real(word=5).alt() == (
        "The sentence “the boat lay at the bank of the river” in an encoder and in a decoder. With “edge” in the place "
        "of “bank”, 11 of 11 states of the encoder have moved after 6 layers, and 4 of 10 of the decoder after 30 "
        "layers."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"depth": 3}, "depth is 3, expected a value from 0 to 2"), ({"word": -1}, "word is -1, expected a value from 0")],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(1, **settings)


@pytest.mark.parametrize(
    ("words", "others", "encoder", "message"),
    [
        (WORDS, OTHERS[:3], np.zeros((3, 4, 6)), "others has 3 entries, expected 4, one for each token"),
        (WORDS, OTHERS, np.zeros((3, 4, 5)), r"encoder has shape \(3, 4, 5\), expected \(3, 4, 6\)"),
        ([], [], np.zeros((3, 0, 2)), "tokens has 0 entries, expected at least 1"),
    ],
)
def test_wrong_arrays_are_refused(words, others, encoder, message):
    with pytest.raises(ValueError, match=message):
        Changes(words, others, encoder, np.zeros((3, 4, 5)), encoder_layers=(0, 1, 2), decoder_layers=(0, 1, 2))
