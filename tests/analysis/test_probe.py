"""Probes find what was planted and nothing else, and the control tells memory from knowledge."""

import numpy as np
import pytest

from compare import assert_equal
from mha.analysis.probe import control_labels, fit_probe, probe_scores, split_tokens, split_types

TOKENS, WIDTH, TYPES = 1009, 61, 37


def planted(seed=0, *, strength=3.0, noise=1.0):
    """Words with a label each, and features in which the label is one direction among many."""
    rng = np.random.default_rng(seed)
    words = rng.integers(TYPES, size=TOKENS)
    labels = rng.integers(3, size=TYPES)[words]
    directions = rng.normal(size=(3, WIDTH))
    return strength * directions[labels] + noise * rng.normal(size=(TOKENS, WIDTH)), labels, words, rng


def test_the_map_solves_the_ridge_problem():
    """The gradient of ‖X W − Y‖² + λ‖W‖² is zero at the map, and the offset is free."""
    rng = np.random.default_rng(1)
    for n in (37, 101):  # fewer rows than columns, and more
        x, labels = 5 + 3 * rng.normal(size=(n, 61)), rng.integers(3, size=n)
        probe = fit_probe(x, labels, ridge=2.0)
        size = np.sqrt(np.square(x - x.mean(0)).mean())
        scaled, wide = (x - x.mean(0)) / size, probe.map * size
        wrong = x @ probe.map + probe.offset - np.eye(3)[labels]
        assert_equal(scaled.T @ wrong + 2.0 * wide, np.zeros((61, 3)), atol=1e-9 * n)
        assert_equal(wrong.sum(0), np.zeros(3), atol=1e-9 * n)


def test_a_shift_or_another_unit_changes_nothing():
    features, labels, _, _ = planted()
    probe, other = fit_probe(features, labels), fit_probe(1e3 * features - 7, labels)
    assert_equal(other.predict(1e3 * features - 7), probe.predict(features))


@pytest.mark.parametrize("split", [split_tokens, split_types])
def test_a_planted_label_is_found(split):
    features, labels, words, rng = planted()
    found = probe_scores(features, labels, words, split(words, rng), rng)
    assert found.accuracy > 0.95
    assert found.majority < 0.6
    assert_equal(found.selectivity, found.accuracy - found.control, rtol=1e-12)


def test_features_that_name_the_word_are_learned_by_heart():
    """One-hot words hold every label of a word, also a random one: no selectivity, and nothing for words not seen."""
    _, labels, words, rng = planted()
    features = np.eye(TYPES)[words]
    seen = probe_scores(features, labels, words, split_tokens(words, rng), rng, ridge=1e-3)
    assert seen.accuracy == seen.control == 1
    unseen = probe_scores(features, labels, words, split_types(words, rng), rng, ridge=1e-3)
    assert unseen.accuracy < 0.7
    assert unseen.control < 0.7


def test_random_labels_are_not_found_in_random_features():
    rng = np.random.default_rng(2)
    words, labels = rng.integers(TYPES, size=TOKENS), rng.integers(2, size=TOKENS)
    found = probe_scores(rng.normal(size=(TOKENS, WIDTH)), labels, words, split_tokens(words, rng), rng)
    assert abs(found.accuracy - 0.5) < 0.1
    assert abs(found.control - 0.5) < 0.15


def test_control_labels_belong_to_words_and_keep_their_shares():
    rng = np.random.default_rng(3)
    words = rng.integers(5003, size=20_011)
    labels = np.where(rng.random(20_011) < 0.8, "common", "rare")
    control = control_labels(words, labels, rng)
    for word in range(11):
        assert len(set(control[words == word])) == 1
    assert abs((control == "common").mean() - 0.8) < 0.03
    assert (control != labels).any()


def test_the_two_splits():
    words = np.random.default_rng(4).integers(TYPES, size=TOKENS)
    by_token, by_type = (split(words, np.random.default_rng(5), share=0.7) for split in (split_tokens, split_types))
    assert by_token.sum() == round(0.7 * TOKENS)
    assert set(words[by_token]) & set(words[~by_token])
    assert not set(words[by_type]) & set(words[~by_type])
    assert len(set(words[by_type])) == round(0.7 * TYPES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_probe(np.ones(3), [0, 1, 1]), r"features has shape \(3,\): expected \(tokens, width\)"),
        (lambda: fit_probe(np.ones((3, 2)), [0, 1]), "numbers of tokens are features 3, labels 2"),
        (lambda: fit_probe(np.ones((3, 2)), [0, 1, 1], ridge=0.0), "ridge is 0.0: expected more than 0"),
        (lambda: split_types(["a"], np.random.default_rng(0)), "the number of words is 1: expected at least 2"),
        (lambda: split_tokens(["a", "b"], np.random.default_rng(0), share=1.0), "share is 1.0: expected more than 0"),
        (
            lambda: probe_scores(np.ones((2, 3)), [0, 1], ["a", "b"], [True, True], np.random.default_rng(0)),
            "fitted chooses 2 of 2 tokens: expected some and not all",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(value):
    features = np.ones((5, 2))
    features[3, 1] = value
    with pytest.raises(ValueError, match="features holds a NaN or an infinity: expected finite numbers"):
        fit_probe(features, np.arange(5))
