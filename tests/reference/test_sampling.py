"""The next token's probabilities ({eq}`next-token`, {eq}`nucleus`) against transformers' processors, and by hand."""

import numpy as np
import pytest

from compare import assert_equal
from mha.reference.sampling import draw_tokens, keep_min_p, keep_top_k, keep_top_p, next_token_probabilities

LOGITS = 3 * np.random.default_rng(7).standard_normal((5, 53))
OPTIONS = [
    {},
    {"temperature": 0.3},
    {"temperature": 2.5},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 99},
    {"top_p": 0.01},
    {"top_p": 0.8},
    {"top_p": 1.0},
    {"min_p": 0.0},
    {"min_p": 0.07},
    {"min_p": 1.0},
    {"temperature": 1.9, "top_k": 17, "top_p": 0.83, "min_p": 0.11},
    {"temperature": 0.6, "top_k": 5, "top_p": 0.9, "min_p": 0.02},
]


def in_transformers(logits, *, temperature=1.0, **cuts):
    """Return the probabilities by transformers' processors, in the order of its `generate`."""
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    kinds = {"top_k": process.TopKLogitsWarper, "top_p": process.TopPLogitsWarper, "min_p": process.MinPLogitsWarper}
    scores = process.TemperatureLogitsWarper(float(temperature))(None, torch.from_numpy(logits))
    for name, kind in kinds.items():
        if name in cuts:
            scores = kind(cuts[name])(None, scores)
    return scores.softmax(-1)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map("{0[0]}={0[1]}".format, options.items())))
def test_equals_transformers(options):
    ours = next_token_probabilities(LOGITS, **options)
    assert_equal(ours, in_transformers(LOGITS, **options), atol=1e-14)
    assert_equal(ours.sum(-1), np.ones(5), atol=1e-14)


def test_the_order_counts():
    """Min-p before the temperature, or top-p before top-k, would be another distribution."""
    cuts = {"top_k": 17, "top_p": 0.83, "min_p": 0.11}
    ours = next_token_probabilities(LOGITS, temperature=1.9, **cuts) > 0
    early = next_token_probabilities(keep_min_p(LOGITS, 0.11), temperature=1.9, top_k=17, top_p=0.83) > 0
    swapped = next_token_probabilities(keep_top_p(LOGITS / 1.9, 0.83) * 1.9, temperature=1.9, top_k=17, min_p=0.11) > 0
    assert (ours != early).any()
    assert (ours != swapped).any()


def kept(logits):
    return np.isfinite(logits).nonzero()[-1].tolist()


def test_top_k_keeps_what_equals_the_last():
    logits = np.array([2.0, 5.0, 2.0, 3.0, 1.0, 2.0])
    assert [kept(keep_top_k(logits, k)) for k in range(1, 7)] == [[1], [1, 3], *[[0, 1, 2, 3, 5]] * 3, list(range(6))]


def test_top_p_keeps_the_token_that_reaches_it():
    logits = np.log([0.125, 0.5, 0.25, 0.125])  # exact in binary, so that 0.75 is reached and not passed
    expected = {0.1: [1], 0.5: [1], 0.51: [1, 2], 0.75: [1, 2], 0.76: [0, 1, 2], 0.9: [0, 1, 2, 3], 1.0: [0, 1, 2, 3]}
    assert {p: kept(keep_top_p(logits, p)) for p in expected} == expected
    assert kept(keep_top_p(np.zeros(8), 0.5)) == [0, 1, 2, 3], "of equals the first"


def test_top_p_1_keeps_even_what_rounding_hides():
    logits = np.array([0.0, -50.0, -700.0])
    assert kept(keep_top_p(logits, 1)) == [0, 1, 2]


def test_min_p_is_a_part_of_the_largest():
    logits = np.log([0.4, 0.2, 0.1, 0.3])
    assert kept(keep_min_p(logits, 0.51)) == [0, 3]
    assert kept(keep_min_p(logits, 0.49)) == [0, 1, 3]
    assert kept(keep_min_p(np.zeros(3), 1.0)) == [0, 1, 2]


def test_temperature_0_is_the_first_of_the_largest():
    logits = np.array([[1.0, 3.0, 3.0], [5.0, 0.0, 1.0]])
    assert_equal(next_token_probabilities(logits, temperature=0), [[0, 1, 0], [1, 0, 0]])
    assert_equal(next_token_probabilities(LOGITS, temperature=1e-4), next_token_probabilities(LOGITS, temperature=0))


def test_a_temperature_next_to_0_is_0():
    logits = np.array([1.0, -np.inf, 5.0, 2.0])
    assert_equal(next_token_probabilities(logits, temperature=5e-324), [0, 0, 1, 0])


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize(
    ("row", "largest"),
    [([-np.inf] * 3, "-inf"), ([1.0, np.nan, 2.0], "nan"), ([1.0, np.inf, 2.0], "inf"), ([], "-inf")],
    ids=["none allowed", "nan", "inf", "empty"],
)
def test_a_row_without_a_token_to_draw_is_refused(row, largest, temperature):
    with pytest.raises(ValueError, match=f"logits has a row whose largest is {largest}: expected a finite number"):
        next_token_probabilities(np.array([row]), temperature=temperature)


def test_what_a_model_has_forbidden_stays_so():
    logits = np.array([0.0, -np.inf, 1.0])
    for options in ({}, {"top_k": 3}, {"top_p": 0.99}, {"min_p": 0.0}, {"temperature": 9.0}):
        assert next_token_probabilities(logits, **options)[1] == 0


def test_axes_in_front():
    ours = next_token_probabilities(LOGITS.reshape(5, 1, 53), top_k=7, top_p=0.8)
    assert_equal(ours[:, 0], next_token_probabilities(LOGITS, top_k=7, top_p=0.8))
    assert_equal(ours[2, 0], next_token_probabilities(LOGITS[2], top_k=7, top_p=0.8))


def test_a_draw_by_hand():
    p = np.array([0.25, 0.0, 0.5, 0.25, 0.0])
    uniform = [0.0, 0.24, 0.25, 0.74, 0.75, np.nextafter(1.0, 0.0)]
    assert_equal(draw_tokens(np.tile(p, (6, 1)), uniform), [0, 0, 2, 2, 3, 3])


def test_draws_share_out_as_the_probabilities_do():
    p = next_token_probabilities(LOGITS[0], top_k=9)
    tokens = draw_tokens(np.tile(p, (10_000, 1)), (np.arange(10_000) + 0.5) / 10_000)
    assert_equal(np.bincount(tokens, minlength=53) / 10_000, p, atol=1.01e-4)


def test_a_draw_never_takes_what_is_left_out():
    rng = np.random.default_rng(1)
    for _ in range(200):
        p = next_token_probabilities(3 * rng.standard_normal(17), top_k=3)
        ends = np.append(p.cumsum(), [0.0, np.nextafter(1.0, 0.0)]).clip(0, np.nextafter(1.0, 0.0))
        assert (p[draw_tokens(np.tile(p, (19, 1)), ends)] > 0).all()
