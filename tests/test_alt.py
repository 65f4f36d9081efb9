"""The words about a picture are true of its numbers, and stable."""

import numpy as np
import pytest

from mha import alt, masks

W = np.array([[1.0, 0.0, 0.0], [0.38, 0.62, 0.0], [0.0, 0.0, 0.0]])


def test_weights_say_where_each_query_looks():
    assert alt.weights(W, queries=["the", "cat", "sat"], keys=["the", "cat", "sat"]) == (
        "Attention weights of 3 queries over 3 keys. Query “the” puts 100 % on “the”; query “cat” puts 62 % on “cat”; "
        "query “sat” sees no key."
    )


def test_large_maps_tell_the_clearest_rows():
    weights = np.full((11, 13), 1 / 13)
    weights[4] = np.eye(13)[6]
    told = alt.weights(weights)
    assert "query 0 puts 8 % on key 0; query 1 puts 8 % on key 0; query 4 puts 100 % on key 6." in told
    assert told.endswith(f"a query puts {alt.percent((10 / 13 + 1) / 11)} on its strongest key.")


def test_scores_tell_signs_and_hidden_pairs():
    scores = np.array([[-1.25, -np.inf], [2.0, 0.5]])
    assert alt.scores(scores) == (
        "Signed scores of 2 queries against 2 keys, from −1.25 to 2. Query 0 scores key 0 highest, −1.25; "
        "query 1 scores key 0 highest, 2. 1 pairs are hidden."
    )
    assert "all hidden" in alt.scores(np.full((2, 3), -np.inf))


def test_mask_tells_ranges():
    assert alt.mask(masks.causal, 2, 3) == (
        "Mask of 2 queries by 3 keys: 5 of 6 pairs may attend. Query 0 sees keys 0 to 1; query 1 sees keys 0 to 2."
    )
    gaps = np.array([[True, False, True, True], [False] * 4, [False, True, False, False]])
    assert alt.mask(gaps).endswith("Query 0 sees 3 keys between 0 and 3; query 1 sees no key; query 2 sees key 1.")


def test_lines_tell_their_course():
    ys = {"a": [1, 2, 4], "b": [3, 3, 3], "c": [5, 2, 1], "d": [1, 7, 2], "e": [0.961, 0.958, 0.96], "f": [1, 1.1, 1]}
    assert alt.lines([1, 2, 65536], ys, x_label="d_k") == (
        "6 lines over d_k from 1 to 65,536. a rises from 1 to 4; b stays at 3; c falls from 5 to 1; "
        "d goes from 1 to 2, lowest 1, highest 7; e stays at 0.96; f stays between 1 and 1.1."
    )
    assert alt.lines([0, 1], {"a": [0, 1]}, x_label="t").startswith("One line over t from 0 to 1.")
    slow = {"a": np.linspace(1, 0.5, 999)}  # each step is less than the digits told
    assert alt.lines(range(999), slow, x_label="t").endswith("a falls from 1 to 0.5.")


def test_bars_tell_heights_or_ends():
    assert alt.bars("ab", [0.5, 0.25], y_label="share") == "2 bars of share. a 0.5; b 0.25."
    assert alt.bars(range(11), range(11), y_label="share") == "11 bars of share. Highest: 10, 10; lowest: 0, 0."


def test_head_grid_counts_sinks_and_previous_token_heads():
    first, previous, even = np.zeros((3, 5, 5))
    first[:, 0] = 1
    previous[np.arange(1, 5), np.arange(4)] = 1
    even[:] = np.tril(np.ones((5, 5))) / np.arange(1, 6)[:, None]
    told = alt.head_grid([[first, previous, even]], marked={(0, 1): "A"})
    assert told == (
        "3 attention maps: 1 layers down, 3 heads across, each of 5 queries by 5 keys. In 1 the queries put over half "
        "of their weight on the first key. In 1 they put over half on the key before. Framed: A is head 1 of layer 0."
    )


def test_split_columns_tells_slices():
    assert alt.split_columns(np.zeros((3, 10)), 2).endswith("head 0 takes columns 0 to 4; head 1 takes columns 5 to 9.")


@pytest.mark.parametrize("noise", [-1e-5, -1e-12, 1e-12, 1e-5])
def test_noise_changes_no_digit_even_at_a_tie(noise):
    tied = np.array([[0.125, 0.875], [0.5, 0.5], [0.625, 0.375]])
    shaken = tied * (1 + noise * np.array([1, -1]))
    assert alt.weights(shaken) == alt.weights(tied)
    assert alt.percent(0.125) == "13 %"


def test_numbers_are_written_as_prose_writes_them():
    assert [alt.number(x) for x in (0.0, -0.5, 1234567, 1e12, 0.25, float("inf"))] == (
        ["0", "−0.5", "1,230,000", "1e+12", "0.25", "inf"]
    )
    assert [alt.number(x, 2) for x in (99.7, 9.97, 0.25)] == ["100", "10", "0.25"]  # rounding may add a digit


def test_torch_tensors_are_read():
    torch = pytest.importorskip("torch")
    assert alt.weights(torch.tensor(W, requires_grad=True)) == alt.weights(W)


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (1, 1)])
def test_small_pictures_have_words(size):
    for words in (alt.weights(np.zeros(size)), alt.scores(np.zeros(size)), alt.mask(np.zeros(size, dtype=bool))):
        assert len(words.split()) >= 4
