"""Distances and error rates against their definitions, searched through in full."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha.analysis.metrics import alignment_error_rate, edit_distance, error_rate, phoneme_error_rate, rank_correlation

words = st.text("abc", max_size=5)


def edits(word):
    """Every string that one insertion, deletion or replacement makes of a word."""
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    inserted = {a + letter + b for (a, b), letter in product(cuts, "abc")}
    return inserted | {a + b[1:] for a, b in cuts if b} | {a + c + b[1:] for (a, b), c in product(cuts, "abc") if b}


@cache
def reached(word, steps):
    """Every string that so many edits make of a word."""
    return {word} if steps == 0 else {new for old in reached(word, steps - 1) for new in edits(old)}


@given(predicted=st.text("abc", max_size=3), expected=st.text("abc", max_size=3))
def test_edit_distance_is_the_shortest_way(predicted, expected):
    shortest = next(steps for steps in range(4) if expected in reached(predicted, steps))
    assert edit_distance(predicted, expected) == shortest


@given(words, words, words)
def test_edit_distance_is_a_metric(a, b, c):
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


@pytest.mark.parametrize(
    ("predicted", "expected", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), (["HH", "AH"], ["HH", "EH", "L"], 2)],
)
def test_known_distances(predicted, expected, distance):
    assert edit_distance(predicted, expected) == distance


def test_error_rate_is_of_all_symbols_together():
    """One error in four phonemes and none in two: 1/6, not the mean of 1/4 and 0."""
    assert phoneme_error_rate(["HH AH L OW", "AY T"], ["HH EH L OW", "AY T"]) == pytest.approx(1 / 6)
    assert error_rate(["abcdef"], ["a"]) == 5
    assert error_rate([""], ["ab"]) == 1


def test_phonemes_are_symbols_not_letters():
    assert phoneme_error_rate(["AH"], ["EH"]) == 1
    assert error_rate(["AH"], ["EH"]) == 0.5


links = st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=6)


@given(st.lists(st.tuples(links, links, links), min_size=1, max_size=3))
def test_alignment_error_rate_counts_links(sentences):
    """Och and Ney's formula, link by link: each link of A and each of S is a chance, found or missed."""
    predicted, sure, more = zip(*sentences, strict=True)
    possible = [s | m for s, m in zip(sure, more, strict=True)]
    found = chances = 0
    for a, s, p in zip(predicted, sure, possible, strict=True):
        for link in product(range(3), range(3)):
            found += (link in a and link in s) + (link in a and link in p)
            chances += (link in a) + (link in s)
    if not chances:
        return
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - found / chances)
    assert alignment_error_rate(predicted, sure, more) == pytest.approx(1 - found / chances)  # sure links are possible


def test_known_alignment_error_rates():
    sure, possible = [{(0, 0), (1, 2)}], [{(0, 0), (1, 2), (1, 1)}]
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate(possible, sure, possible) == 0  # a possible link is no error
    assert alignment_error_rate(possible, sure) == pytest.approx(1 - 4 / 5)  # without them it is one: 1 − F₁
    assert alignment_error_rate([{(5, 5)}], sure) == 1
    assert alignment_error_rate([[(0, 0), (0, 0)]], [[(0, 0)]]) == 0  # a link counts once


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: error_rate(["a"], ["a", "b"]), ValueError, r"predicted has 1 sequences and expected 2"),
        (lambda: error_rate(["a"], [""]), ValueError, r"expected holds no symbol"),
        (lambda: error_rate([], []), ValueError, r"expected holds no symbol"),
        (lambda: phoneme_error_rate("AH", "EH"), TypeError, r"predicted is 'AH': expected several strings"),
        (lambda: phoneme_error_rate([["AH"]], ["EH"]), TypeError, r"predicted is \[\['AH'\]\]: expected several"),
        (lambda: alignment_error_rate([{(0, 0)}], []), ValueError, r"have 1, 0 and 0 sentences"),
        (lambda: alignment_error_rate([set()], [set()]), ValueError, r"hold no link"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_rank_correlation_by_hand():
    assert rank_correlation([1, 20, 300], [0.1, 0.2, 0.3]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(1 - 6 * 4 / (4 * 15))  # 1 − 6 Σd² / (n³ − n)
    assert rank_correlation([1, 2, 2, 5], [1, 2, 3, 4]) == pytest.approx(4.5 / np.sqrt(4.5 * 5))  # ranks 1, 2.5, 2.5, 4


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1, 2, 3], r"x and y have shapes \(2,\) and \(3,\): expected two lists of equally many numbers"),
        ([1], [1], "expected two lists"),
        ([1, 1], [1, 2], "holds one number over and over"),
    ],
)
def test_rank_correlation_of_what_has_no_order(x, y, message):
    with pytest.raises(ValueError, match=message):
        rank_correlation(x, y)
