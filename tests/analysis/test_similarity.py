"""Similarity on heads whose answer is known: the same, the opposite, turned, shuffled; and against loops."""

import math

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.analysis.similarity import js_distance, linear_cka, output_similarities, pattern_distances, shuffled_keys
from mha.reference import attention_weights

H, N, M, D = 5, 13, 11, 3
ATOL = 1e-7  # a root near 0 doubles the digits that rounding takes: √(8 eps)
CAUSAL = np.tri(N, dtype=bool)


def random(*leading, seed=0, keys=N, mask=None):
    rng = np.random.default_rng(seed)
    q, k = (rng.normal(size=(*(leading or (1,)), n, 7)) for n in (N, keys))
    weights = attention_weights(q, k, mask=mask)
    return weights if leading else weights[0]


def looped(a, b, visible):
    """Jensen–Shannon from its definition: the mean of two Kullback–Leibler divergences to the middle."""
    found = []
    for p, q, seen in zip(a, b, visible, strict=True):
        if seen.sum() < 2:
            continue
        divergence = 0.0
        for x, y in zip(p[seen], q[seen], strict=True):
            for z in (x, y):
                divergence += z * math.log2(z / ((x + y) / 2)) / 2 if z > 0 else 0.0
        found.append(math.sqrt(max(divergence, 0.0)))
    return math.fsum(found) / len(found)


def test_the_same_map_and_maps_without_a_common_key():
    weights = random(H)
    assert_equal(js_distance(weights, weights), np.zeros(H), atol=ATOL)
    left, right = np.zeros((2, N, M))
    left[:, :4] = random(keys=4)
    right[:, 4:] = random(keys=M - 4)
    assert_equal(js_distance(left, right), 1.0, atol=ATOL)
    half = np.zeros((N, M))
    half[:, 0] = 1
    spread = half / 2
    spread[:, 1] = 0.5
    by_hand = math.sqrt(1.5 - 0.75 * math.log2(3))  # H(¾, ¼) = 2 − ¾ log₂ 3, less ½ H(½, ½) = ½
    assert_equal(js_distance(half, spread), by_hand, atol=ATOL)


@pytest.mark.parametrize(
    ("keys", "mask", "visible"), [(M, None, None), (N, masks.causal, CAUSAL)], ids=["all", "causal"]
)
def test_distance_is_the_definition(keys, mask, visible):
    a, b = random(H, keys=keys, mask=mask), random(H, keys=keys, mask=mask, seed=1)
    seen = np.ones((N, keys), bool) if visible is None else visible
    expected = [looped(x, y, seen) for x, y in zip(a, b, strict=True)]
    assert_equal(js_distance(a, b, visible=visible), expected, atol=ATOL)
    assert_equal(js_distance(a, b, visible=visible), js_distance(b, a, visible=visible))
    assert_equal(pattern_distances(a, b, visible=visible).diagonal(), expected, atol=ATOL)


def test_it_is_a_metric():
    a, b, c = (random(20, seed=seed) for seed in range(3))
    assert (js_distance(a, c) <= js_distance(a, b) + js_distance(b, c) + ATOL).all()


def test_rows_without_a_choice_do_not_count():
    a, b = random(mask=masks.causal), random(mask=masks.causal, seed=1)
    with_the_first = js_distance(a, b)
    assert_equal(with_the_first * N, js_distance(a, b, visible=CAUSAL) * (N - 1), atol=N * ATOL)
    assert js_distance(a, b, visible=CAUSAL) > with_the_first
    with pytest.raises(ValueError, match="visible leaves no query a choice of keys"):
        js_distance(a, b, visible=np.eye(N, dtype=bool))


def test_sinks_outside_the_rows_change_nothing():
    a, b = random(), random(seed=1)
    assert_equal(js_distance(a * 0.3, b), js_distance(a, b), atol=ATOL)


def test_a_row_without_weight():
    a, b = random(), random(seed=1)
    a[3], empty = 0, np.zeros((N, N))
    assert_equal(js_distance(empty, empty), 0.0)
    assert_equal(js_distance(empty, b), 1.0, atol=ATOL)
    assert_equal(
        js_distance(a, b) * N, 1 + js_distance(np.delete(a, 3, 0), np.delete(b, 3, 0)) * (N - 1), atol=N * ATOL
    )


def test_all_pairs():
    weights, others = random(H), random(H - 2, seed=1)
    expected = [[float(js_distance(a, b)) for b in others] for a in weights]
    assert_equal(pattern_distances(weights, others), expected, atol=ATOL)
    assert_equal(pattern_distances(weights), pattern_distances(weights, weights))
    assert_equal(pattern_distances(weights).T, pattern_distances(weights), atol=ATOL)


@pytest.mark.parametrize("visible", [None, CAUSAL], ids=["all", "causal"])
def test_shuffled_keys_keep_the_weights_of_each_row(visible):
    weights = random(H, mask=None if visible is None else masks.causal)
    mixed = shuffled_keys(weights, np.random.default_rng(0), visible=visible)
    assert_equal(np.sort(mixed, -1), np.sort(weights, -1))
    assert_equal(np.where(np.ones((N, N), bool) if visible is None else visible, 0, mixed), np.zeros((H, N, N)))
    assert js_distance(mixed, weights).min() > 0.1
    assert not np.array_equal(*[mixed[0].argsort(-1), mixed[1].argsort(-1)])  # noqa: TID251 - not alike is meant


def test_a_turned_scaled_and_shifted_head_is_the_same_head():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)) * [1, 2, 5]
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0]
    assert_equal(linear_cka(x, 3 * x @ turn + 7), 1.0, atol=1e-12)
    assert linear_cka(x, x @ np.diag([5, 2, 0.1])) < 0.9, "other directions weigh more: not the same"
    assert linear_cka(x, np.ones((N, 2))) == 0


def test_cka_is_the_alignment_of_centred_products():
    """Kornblith et al. (2019), equations 1 and 3: HSIC of the linear kernels, with the centring matrix."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(N, D)), rng.normal(size=(N, D + 2))
    centre = np.eye(N) - 1 / N
    hsic = lambda a, b: np.trace(a @ a.T @ centre @ b @ b.T @ centre) / (N - 1) ** 2  # noqa: E731
    assert_equal(linear_cka(x, y), hsic(x, y) / math.sqrt(hsic(x, x) * hsic(y, y)), atol=1e-13)


def test_all_outputs():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(H, N, D)), rng.normal(size=(H - 1, N, D + 1))
    x[2] = 4  # says the same of every token
    expected = [[linear_cka(a, b) for b in y] for a in x]
    assert_equal(output_similarities(x, y), expected, atol=1e-13)
    assert output_similarities(x)[2, 2] == 0
    assert_equal(np.delete(output_similarities(x).diagonal(), 2), np.ones(H - 1), atol=64 * rounding.EPS)


@pytest.mark.parametrize("value", [0.1, 0.3, 1e5 / 3])
def test_a_head_that_says_the_same_of_every_token_is_like_none(value):
    """The mean of equal numbers may be off by rounding; what that leaves is no direction."""
    same, other = np.full((7, 3), value), np.random.default_rng(0).normal(size=(7, 3))
    assert linear_cka(same, same) == linear_cka(same, other) == 0
    assert_equal(output_similarities(np.stack([same, other])), [[0.0, 0.0], [0.0, 1.0]], atol=1e-12)


def test_few_tokens_make_strangers_look_alike():
    rng = np.random.default_rng(3)
    few, many = (linear_cka(*rng.normal(size=(2, n, 20))) for n in (10, 2000))
    assert few > 0.5
    assert many < 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: js_distance(random(), random(keys=M)), "expected maps of the same queries and keys"),
        (lambda: js_distance(random() - 0.5, random()), "expected attention weights"),
        (lambda: js_distance(random(), random(), visible=np.tri(N)), "visible is float64"),
        (lambda: js_distance(random(), random(), visible=CAUSAL[1:]), r"expected bool \(13, 13\)"),
        (lambda: pattern_distances(random()), r"expected \(heads, i, j\)"),
        (lambda: pattern_distances(random(2), random(2, keys=M)), "maps of the same queries and keys"),
        (lambda: linear_cka(np.ones((N, D)), np.ones((M, D))), "those of the same tokens"),
        (lambda: linear_cka(np.ones((1, D)), np.ones((1, D))), "at least 2 tokens"),
        (lambda: output_similarities(np.ones((N, D))), r"expected \(heads, tokens, width\)"),
        (lambda: output_similarities(np.ones((2, N, D)), np.ones((2, M, D))), "of the same tokens"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
