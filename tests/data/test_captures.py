"""The committed results are consistent in themselves, small, and show what the book says of them."""

import math
import re
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest

from compare import assert_equal
from mha.analysis.patterns import induction_score, previous_token_score, sink_score
from mha.data import capture
from mha.data.captures import NAMES, pack_causal, unpack_causal

FLOAT16 = 2.0**-11  # largest relative rounding
FOLDER = files("mha.data.captures")


def test_small_and_complete():
    sizes = {name: len(FOLDER.joinpath(f"{name}.npz").read_bytes()) for name in NAMES}
    assert max(sizes.values()) <= 400_000, sizes
    assert sum(sizes.values()) <= 1_200_000, sizes


@pytest.mark.parametrize("name", NAMES)
def test_says_what_it_is(name):
    result = capture(name)
    assert result.about["arrays"].keys() == result.arrays.keys()
    assert result.about["command"] == f"python tools/capture.py {name}"
    assert {"model", "sentence", "from", "versions", "date"} <= result.about.keys()
    lengths = [result[name].shape[-1] for name in ("ids", "patterns") if name in result.arrays]
    assert set(lengths) <= {len(result.tokens)}
    assert name in repr(result)
    with pytest.raises(ValueError, match="read-only"):
        next(iter(result.arrays.values()))[:] = 0


def test_unknown_name():
    with pytest.raises(ValueError, match="name is 'gpt': expected one of minilm_changes, minilm_heads, minilm_pair"):
        capture("gpt")


@pytest.mark.parametrize("n", [0, 1, 7])
def test_packing_keeps_the_lower_triangle(n):
    patterns = np.tril(np.random.default_rng(n).random((2, 3, n, n)))
    packed = pack_causal(patterns)
    assert packed.shape == (2, 3, n * (n + 1) // 2)
    assert_equal(unpack_causal(packed, n), patterns, label="round trip")


@pytest.mark.parametrize(
    ("name", "rounding"), [("smollm2_sentence", FLOAT16), ("minilm_sentence", FLOAT16), ("smollm2_repeat", 2.0**-11)]
)
def test_rows_are_weights(name, rounding):
    """Each stored weight is off by at most `rounding` (relative ≤ 1, or half of 1/1024), a row by n times that."""
    patterns = capture(name)["patterns"].astype(np.float64)
    assert patterns.min() >= 0
    n = patterns.shape[-1]
    assert_equal(patterns.sum(-1), np.ones(patterns.shape[:-1]), atol=n * rounding, label=name)
    if name.startswith("smollm2"):
        assert patterns.shape[:2] == (30, 9)
        assert not np.triu(patterns, 1).any()


def test_queries_and_keys_give_the_patterns():
    """Rounding q and k to three decimals moves a score by at most δ, so a weight by a factor of at most e^(2δ)."""
    result = capture("minilm_sentence")
    q, k = (result[name].astype(np.float64) for name in "qk")
    scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])
    half = 0.0005
    size = (np.abs(q).sum(-1)[..., None] + np.abs(k).sum(-1)[:, None, :] + q.shape[-1] * half) * half
    moved = np.expm1(2 * (size / np.sqrt(q.shape[-1])).max(-1, keepdims=True))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    stored = result["patterns"][result.about["layer"]].astype(np.float64)
    error = np.abs(stored - weights)
    assert np.all(error <= weights * (moved + FLOAT16) + 2.0**-24), error.max()
    assert error.max() < 0.002
    swapped = np.abs(stored - weights[::-1]).max()
    assert swapped > 0.5  # the test would see heads in the wrong order


def test_projections_of_the_input_give_the_queries_keys_and_values():
    """Each of 384 products errs by half a step of its input and by the relative rounding of its weight."""
    given, sentence = capture("minilm_projections"), capture("minilm_sentence")
    layer, head = given.about["layer"], given.about["head"]
    assert layer == sentence.about["layer"]
    assert given.tokens == sentence.tokens
    x = given["x"].astype(np.float64)
    for letter in "qkv":
        w, b = (given[f"{kind}_{letter}"].astype(np.float64) for kind in "wb")
        error = 0.0005 * np.abs(w).sum(0) + FLOAT16 * (np.abs(x) @ np.abs(w) + np.abs(b)) + 0.0005
        assert np.all(np.abs(x @ w + b - sentence[letter][head]) <= error), letter
        assert error.max() < 0.1 * np.abs(sentence[letter][head]).max()


@pytest.mark.parametrize("name", ["minilm_words", "minilm_pair"])
def test_vectors_have_length_one(name):
    result = capture(name)
    vectors = result["vectors"].astype(np.float64)
    assert vectors.shape == (len(result.tokens), 384)
    assert_equal(np.linalg.norm(vectors, axis=-1), np.ones(len(vectors)), atol=FLOAT16, label=name)


def test_numbers_of_the_learned_positions_fit_together():
    found = capture("minilm_positions")
    components, cosines = (found[name].astype(np.float64) for name in ("components", "cosines"))
    assert_equal(np.linalg.norm(components, axis=0), found["spectrum"][:4], rtol=FLOAT16, label="components")
    assert_equal(np.diagonal(cosines), np.ones(64), atol=FLOAT16)
    assert_equal(cosines, cosines.T)
    assert (np.diff(found["spectrum"]) <= 0).all()
    assert_equal(np.array([found["by_distance"][0], found["alike"][0]]), np.ones(2), atol=1e-6)
    assert found["norms"].argmax() == 0, "the start token stands apart"
    assert found["alike"][1:].max() < 0.95 < found["alike_kept"][1:5].min(), (
        "what counts most is the start token's place"
    )


def test_an_encoder_moves_everywhere_and_a_decoder_to_the_right_only():
    found = capture("minilm_changes")
    encoder, decoder = found["encoder"], found["decoder"]
    own = np.arange(len(found.tokens)), 1 + np.arange(len(found.tokens))
    for moved in (encoder, decoder):
        alone = np.zeros(moved.shape[1:], bool)
        alone[own] = True
        assert_equal(moved[0] > 0, alone, label="before the first layer only the exchanged word differs")
    assert (encoder[1:] > 0).all()
    assert_equal(decoder[1:] > 0, np.broadcast_to(np.tri(10, 9, -1, bool).T, decoder[1:].shape), label="decoder")


def test_triplets_share_words_with_what_is_not_meant():
    found = capture("minilm_triplets")
    sentences = np.array(found.tokens).reshape(24, 4)
    assert len(set(found.tokens)) == 96
    for sentence, paraphrase, *distractors in sentences:
        counts = [Counter(re.findall(r"[a-z']+", x.lower())) for x in (sentence, paraphrase, *distractors)]
        norms = [math.sqrt(sum(n * n for n in count.values())) for count in counts]
        shared = [
            sum((counts[0][x] * y for x, y in count.items())) / norm for count, norm in zip(counts, norms, strict=True)
        ]
        assert min(shared[2:]) > shared[1], sentence
    wins = (found["mean"][:, :1] > found["mean"][:, 1:]).sum(0)
    assert wins[0] <= 4 < 17 <= wins[1], "other matters are farther than the paraphrase, contraries are nearer"


def test_some_heads_of_the_encoder_look_one_place_back_or_ahead():
    found = capture("minilm_heads")
    assert len(found.tokens) == found.about["length"] == 256
    assert (found.tokens[0], found.tokens[-1]) == ("[CLS]", "[SEP]")
    assert (found["previous_token"].argmax(), found["next_token"].argmax()) == (2, 12 + 8)
    assert min(found["previous_token"].max(), found["next_token"].max()) > 0.6
    assert found["entropy"].max() < math.log(256)
    assert found["padding"][0] < 1e-5


def test_layer_is_the_one_whose_heads_differ_most():
    about = capture("minilm_sentence").about
    assert about["layer"] == int(np.argmax(about["spread"]))


def test_repeated_words_repeat_and_are_foreseen():
    result = capture("smollm2_repeat")
    period = result.about["period"]
    assert result.tokens[1 : 1 + period] == result.tokens[1 + period :]
    assert result["loss_first"].shape == result["loss_second"].shape == (result.about["scored_period"],)
    assert result["loss_second"].mean() < result["loss_first"].mean() / 3


@pytest.mark.parametrize(("layer", "head", "score"), [(18, 6, "induction"), (16, 0, "previous_token"), (18, 8, "sink")])
def test_the_best_head_of_each_kind_is_seen_in_the_shown_run_too(layer, head, score):
    result = capture("smollm2_repeat")
    assert np.unravel_index(result[score].argmax(), (30, 9)) == (layer, head)
    patterns = result["patterns"]
    found = {
        "previous_token": previous_token_score(patterns),
        "induction": induction_score(patterns[..., 1:, 1:], result.about["period"]),
        "sink": sink_score(patterns),
    }
    assert found[score][layer, head] > 0.8


def test_sentence_shows_the_induction_head():
    """At the second "same" the head looks at "ocean", which followed the first."""
    result = capture("smollm2_sentence")
    second = len(result.tokens) - 1 - result.tokens[::-1].index("same")
    first = result.tokens.index("same")
    row = result["patterns"][18, 6, second]
    assert result.tokens[row.argmax()] == "ocean"
    assert row.argmax() == first + 1
    assert row.max() > 0.9


def test_largest_numbers_and_gradients_of_a_real_pass():
    found = capture("smollm2_layer")
    q, k = found["q"].astype(np.float64), np.repeat(found["k"].astype(np.float64), 3, axis=0)
    products = np.einsum("hid,hjd->hij", q, k)[..., np.tri(64, dtype=bool)]
    layer = found.about["layer"]
    rounding = 0.0005 * (np.abs(q).sum(-1).max() + np.abs(k).sum(-1).max())
    assert_equal(found["largest_product"][layer], np.abs(products).max(), atol=rounding, label="largest product")
    assert_equal(found["largest_score"][layer], products.max() / 8, atol=rounding / 8, label="largest score")
    assert found["largest_stream"].max() > 10_000 > 100 * found["largest_product"].max() / 8, (
        "the stream is the large one"
    )
    pairs = 30 * 9 * (64 * 65 // 2 - 1 - 64)
    for name, expected in (("queries", 30 * 9 * 62 * 64), ("scores", pairs)):
        counts = found[f"{name}_by_exponent"]
        assert counts.sum() == expected
        assert found["exponents"][counts.argmax()] < -10, "most gradients are small"
