"""Every exercise: its solution passes, each planted mistake receives its own hint, each property is reached."""

from importlib import import_module

import numpy as np
import pytest

from mha.exercises import Exercise, check, registry
from mha.exercises.registry import CHAPTERS
from mha.exercises.trial import attempt
from mha.text import say, template

EXERCISES = registry()
MISTAKES = [(exercise, name) for exercise in EXERCISES.values() for name in exercise.mistakes]

# For each property, an answer that is no known mistake and fails there first.
BREAKS = {
    ("bugs-4", "hidden-is-zero"): lambda scores, mask: EXERCISES["bugs-4"].solve(scores, mask) + 0.3,
    ("bugs-4", "rows-sum-to-one"): lambda scores, mask: EXERCISES["bugs-4"].solve(scores, mask) * 0.7,
    ("long-range-4", "part-of-the-whole"): lambda x: EXERCISES["long-range-4"].solve(x) + 1.5,
    ("long-range-5", "no-future"): lambda *given: EXERCISES["long-range-5"].solve(*given) + 0.5,
    ("scaling-limits-1", "between-neighbours"): lambda *given: EXERCISES["scaling-limits-1"].solve(*given) + 0.5,
    ("scaling-limits-2", "fits"): lambda *given: EXERCISES["scaling-limits-2"].solve(*given) + 5,
    ("scaling-limits-2", "one-more-fails"): lambda *given: EXERCISES["scaling-limits-2"].solve(*given) - 5,
    ("scaling-limits-3", "flat-behind-the-window"): lambda n, *rest: EXERCISES["scaling-limits-3"].solve(n, *rest) + n,
    ("scaling-limits-4", "falls-with-key-heads"): lambda *given: -EXERCISES["scaling-limits-4"].solve(*given),
    ("redundancy-1", "between"): lambda a, b: EXERCISES["redundancy-1"].solve(a, b) + 1.5,
    ("redundancy-2", "between"): lambda x, y: EXERCISES["redundancy-2"].solve(x, y) + 1.5,
    ("redundancy-3", "another"): lambda distances: np.arange(len(distances))[::-1].clip(1),
    ("bert-1", "not-chosen-stay"): lambda tokens, *draws: tokens + 1,
    ("bert-2", "not-negative"): lambda *given: -1 - EXERCISES["bert-2"].solve(*given),
    ("bert-3", "own-output"): lambda *given: EXERCISES["bert-3"].solve(*given) & False,
    ("bert-4", "padding-is-not-read"): lambda *given: EXERCISES["bert-4"].solve(*given) + 7,
    ("transformer-1", "centred"): lambda *given: EXERCISES["transformer-1"].solve(*given) + 1,
    ("transformer-4", "sees-itself"): lambda *given: EXERCISES["transformer-4"].solve(*given) & False,
    ("first-look-1", "is-share"): lambda weights: weights.sum((-2, -1)) + 1,
    ("first-look-2", "is-share"): lambda weights: weights.sum((-2, -1)) + 1,
    ("first-look-3", "is-share"): lambda weights, period: weights.sum((-2, -1)) + 1,
    ("first-look-4", "is-length"): lambda weights: weights.sum((-2, -1)) + 1,
    ("alignment-1", "bounded"): lambda *given: EXERCISES["alignment-1"].solve(*given) + 1e3,
    ("alignment-2", "within-values"): lambda *given: EXERCISES["alignment-2"].solve(*given) + 1e3,
    ("alignment-3", "outside-is-zero"): lambda *given: EXERCISES["alignment-3"].solve(*given) + 0.01,
    ("alignment-3", "at-most-one"): lambda *given: EXERCISES["alignment-3"].solve(*given) * 5,
    ("alignment-4", "within-memory"): lambda *given: EXERCISES["alignment-4"].solve(*given) + 1e3,
    ("query-key-value-1", "within-values"): lambda q, k, v, temperature: q @ k.T @ v + 1e6,
    ("query-key-value-2", "one-position"): lambda x, w_q, w_k, w_v: 2 * x @ w_v,
    ("query-key-value-5", "same-rows"): lambda output, order: output * 2,
    ("dot-product-1", "is-positive"): lambda scores: scores - 1.0,
    ("dot-product-1", "rows-sum-to-one"): lambda scores: np.abs(scores * 1.0),
    ("dot-product-2", "is-positive"): lambda q, k: -(q @ k.swapaxes(-1, -2)),
    ("dot-product-2", "rows-sum-to-one"): lambda q, k: (q @ k.swapaxes(-1, -2)) ** 2,
    ("dot-product-3", "last-sees-all"): lambda n_q, n_k: np.zeros((n_q, n_k), bool),
    ("dot-product-3", "one-more-each-row"): lambda n_q, n_k: np.arange(n_q)[:, None] + 0 * np.arange(n_k) == n_q - 1,
    ("dot-product-5", "empty-row-is-zero"): lambda q, k, v, mask: np.where(
        mask.any(-1)[:, None], EXERCISES["dot-product-5"].solve(q, k, v, mask), 0.5
    ),
    ("dot-product-5", "within-values"): lambda q, k, v, mask: (
        (100 * mask) @ v + 0 * EXERCISES["dot-product-5"].solve(q, k, v, mask)
    ),
    ("dot-product-6", "is-positive"): lambda scores: scores - 1e6,
    ("dot-product-6", "rows-sum-to-one"): lambda scores: np.abs(scores),
    ("dot-product-6", "only-winners"): lambda scores: np.eye(scores.shape[-1])[scores.argmin(-1)],
    ("dot-product-7", "rows-sum-to-zero"): lambda weights, d_weights: d_weights + 1.0,
    ("dot-product-7", "hidden-stays-still"): lambda weights, d_weights: d_weights - d_weights.mean(-1, keepdims=True),
    ("heads-1", "same-numbers"): lambda x, num_heads: EXERCISES["heads-1"].solve(x, num_heads) * 2,
    ("heads-1", "first-head-first"): lambda x, num_heads: EXERCISES["heads-1"].solve(x, num_heads)[:, ::-1],
    ("heads-2", "same-numbers"): lambda x: EXERCISES["heads-2"].solve(x) * 2,
    ("heads-2", "first-head-first"): lambda x: EXERCISES["heads-2"].solve(x[:, ::-1]),
    ("heads-3", "one-position"): lambda x, w_q, w_k, w_v, w_o, num_heads: x @ w_q @ w_o,
    ("heads-4", "sums-to-output"): lambda heads, w_o: EXERCISES["heads-4"].solve(heads, w_o) + 1,
    ("heads-4", "depends-on-own-head"): lambda heads, w_o: EXERCISES["heads-4"].solve(heads, w_o)[:, ::-1],
    ("gradients-1", "is-symmetric"): lambda p: np.arange(len(p))[:, None] + np.zeros(len(p)),
    ("gradients-1", "rows-sum-to-zero"): lambda p: np.ones((len(p), len(p))),
    ("gradients-2", "differences-of-keys"): lambda q, k, v, d_output: q + 1,
    ("gradients-3", "rows-sum-to-one"): lambda q, k, lse: q @ k.T,
    ("flash-1", "never-falls"): lambda top, total, scores: np.stack([top - 1, total]),
    ("flash-1", "sum-is-lse"): lambda top, total, scores: np.stack([top, total]) + 1,
    ("flash-2", "at-least-the-diagonal"): lambda n, bm, bn: 0 * n,
    ("flash-2", "at-most-all"): lambda n, bm, bn: n * n + 10,
    ("flash-3", "at-least-once"): lambda n, *sizes: n,
    ("flash-4", "keys-balance"): lambda q, k, v, output, lse, d_output: k + 1,
    ("cost-1", "at-most-everything"): lambda n, d_head: 5 * d_head * n**2,
    ("cost-2", "at-least-the-fused"): lambda n, *sizes: n,
    ("cost-3", "both-fit"): lambda flops, nbytes, peak, bandwidth: 0 * flops,
    ("cost-4", "falls-with-sharing"): lambda groups, *sizes: groups + 1e6,
    ("cost-4", "one-each"): lambda groups, *sizes: 1e6 - groups,
    ("position-1", "on-circles"): lambda positions, d_model: 2 * EXERCISES["position-1"].solve(positions, d_model),
    ("position-2", "keeps-lengths"): lambda distance, d_model: 2 * EXERCISES["position-2"].solve(distance, d_model),
    ("position-2", "moves-position-zero"): lambda distance, d_model: -np.eye(d_model),
    ("position-3", "first-is-zero"): lambda keep: EXERCISES["position-3"].solve(keep) + 5,
    ("position-3", "a-row-exists"): lambda keep: EXERCISES["position-3"].solve(keep) - 5 * ~keep,
    ("position-4", "columns-leave-the-first-half"): lambda rows, columns, d_model: EXERCISES["position-4"].solve(
        rows + 1, columns, d_model
    ),
    ("rotary-1", "same-length"): lambda x, position: EXERCISES["rotary-1"].solve(x, position) + 0.1,
    ("rotary-2", "same-columns"): lambda w, num_heads: EXERCISES["rotary-2"].solve(w, num_heads) + 0.1,
    ("rotary-5", "between"): lambda frequencies, factor, length: frequencies * 1.5,
    ("sparse-5", "each-once"): lambda n, step: np.zeros(n, int),
    ("grouped-1", "equal-shares"): lambda num_heads, num_kv_heads: (
        (np.arange(num_heads) == num_heads - 1) * (num_kv_heads - 1)
    ),
    ("grouped-3", "alone"): lambda q, k, v, keys, values: (
        EXERCISES["grouped-3"].solve(q, k, v, keys, values) + (keys.shape[1] == 0)
    ),
    ("linear-1", "between-the-values"): lambda q, k, v: EXERCISES["linear-1"].solve(q, k, v) + 10,
    ("linear-2", "positive"): lambda x, w: EXERCISES["linear-2"].solve(x, w) - 1,
    ("linear-3", "longer-with-each-head"): lambda h: EXERCISES["linear-3"].solve(10 - h),
    ("linear-4", "elsewhere-unchanged"): lambda state, k, v, beta: (
        EXERCISES["linear-4"].solve(state, v=v, k=k, beta=beta) + 1
    ),
    ("grouped-4", "linear"): lambda q, w_k, latent: EXERCISES["grouped-4"].solve(q, w_k, latent + latent.mean()),
    ("grouped-5", "same-mean"): lambda *inputs: EXERCISES["grouped-5"].solve(*inputs) + 1,
    ("heads-6", "same-rows"): lambda w_o, order: w_o * 2,
    ("relative-1", "last-is-1-in-256"): lambda num_heads: 2 * EXERCISES["relative-1"].solve(num_heads),
    ("relative-1", "constant-ratio"): lambda num_heads: np.full(num_heads, 2.0**-8),
    ("relative-2", "without-table"): lambda q, k, table: EXERCISES["relative-2"].solve(q, k, table) + (not table.any()),
    ("relative-3", "small-are-exact"): lambda back, num_buckets, max_distance: np.zeros_like(back),
    ("relative-3", "never-falls"): lambda back, num_buckets, max_distance: np.where(
        back < num_buckets // 2, back, -back
    ),
    ("relative-3", "stays-in-table"): lambda back, num_buckets, max_distance: back * 1,
    ("relative-4", "diagonal-is-distance-0"): lambda x: EXERCISES["relative-4"].solve(x) + 1,
    ("kernels-1", "all-tiles"): lambda see, rows, columns: np.array([1, 1, 1]),
    ("kernels-2", "between"): lambda outputs, lses: outputs.max(0) + 1,
    ("kernels-3", "first-token"): lambda q, k, v, chunk: v + 100,
    ("kernels-4", "first-row"): lambda pages, page_row, length: np.full((length, pages.shape[2]), 7.0),
    ("mixed-precision-1", "within-the-roundoff"): lambda x, bits: x * 2,
    ("mixed-precision-3", "fits"): lambda x, largest: np.full((len(x), 1, 1), 1e9),
    ("mixed-precision-4", "starts-as-given"): lambda gradients, scale, interval: np.full(len(gradients), scale + 1),
    ("mixed-precision-4", "powers-of-two"): lambda gradients, scale, interval: (
        scale * np.arange(1, len(gradients) + 1.0)
    ),
    ("translation-1", "at-most-one"): lambda length, reference_length: 5 + length,
    ("translation-2", "is-share"): lambda output, reference, n: 7.5,
    ("translation-3", "is-share"): lambda found, sure, possible: -1.0,
    ("translation-5", "negative"): lambda log_prob, length, alpha: 7 + length,
    ("generation-1", "positive"): lambda logits, tokens: -7.0,
    ("generation-3", "sums-to-one"): lambda logits, p: np.full(len(logits), 0.9 / len(logits)),
    ("generation-3", "keeps-the-best"): lambda logits, p: np.eye(len(logits))[np.argmin(logits)],
    ("generation-5", "sees-itself"): lambda n, window, sinks: np.tri(n, k=-1, dtype=bool),
    ("generation-5", "no-future"): lambda n, window, sinks: np.ones((n, n), bool),
    ("interpretability-1", "rows-sum-to-one"): lambda maps, residual: 2 * np.eye(maps.shape[-1]),
    ("interpretability-1", "no-future"): lambda maps, residual: np.eye(maps.shape[-1])[::-1],
    ("interpretability-2", "alike-values"): lambda weights, values: weights + 7,
    ("interpretability-3", "not-negative"): lambda weights, values, w_o: -7 - weights,
    ("interpretability-4", "complete"): lambda m, x, baseline: x + 7,
    ("interpretability-5", "between"): lambda x, y: 7.0,
    ("mixed-precision-5", "near-the-sum"): lambda x, bits: np.float64(9 * x.sum()),
}


@pytest.mark.parametrize("id", EXERCISES)
def test_the_solution_passes(id):
    exercise = EXERCISES[id]
    verdict = check(id, exercise.solve() if exercise.is_on_paper else exercise.solve)
    assert verdict
    assert (verdict.property, verdict.hint) == ("all", say(f"exercises.{id}.praise"))


@pytest.mark.parametrize(("exercise", "name"), MISTAKES, ids=lambda x: getattr(x, "id", x))
def test_a_mistake_gets_its_own_hint(exercise, name):
    mistake = exercise.mistakes[name]
    verdict = check(exercise.id, mistake() if exercise.is_on_paper else mistake)
    assert not verdict.passed
    assert (verdict.property, verdict.hint) == (name, say(f"exercises.{exercise.id}.mistakes.{name}"))


@pytest.mark.parametrize("exercise", [e for e in EXERCISES.values() if not e.is_on_paper], ids=lambda e: e.id)
def test_no_mistake_raises_everywhere_and_none_overwrites_its_input(exercise):
    cases = exercise.cases(np.random.default_rng(0))
    for name, mistake in exercise.mistakes.items():
        trials = [attempt(mistake, inputs) for inputs in cases]
        assert any(trial.error is None for trial in trials), name
        assert not any(trial.changed for trial in trials), name


@pytest.mark.parametrize(("id", "name"), [(e.id, name) for e in EXERCISES.values() for name in e.properties])
def test_a_broken_property_is_named(id, name):
    verdict = check(id, BREAKS[id, name])
    assert (verdict.property, verdict.hint) == (name, say(f"exercises.{id}.properties.{name}"))
    assert verdict.example


def test_every_exercise_has_its_words_and_no_words_are_left_over():
    rooms = {"verdict", "kind", "example"}
    words = {name: entry for name, entry in template("exercises").items() if name not in rooms}
    assert words.keys() == EXERCISES.keys()
    for id, exercise in EXERCISES.items():
        assert words[id]["mistakes"].keys() == exercise.mistakes.keys(), id
        assert words[id].get("properties", {}).keys() == exercise.properties.keys(), id
        assert ("hint" in words[id]) == exercise.is_on_paper, id


def test_no_two_mistakes_of_an_exercise_share_a_hint():
    for id in EXERCISES:
        hints = list(template(f"exercises.{id}.mistakes").values())
        assert len(set(hints)) == len(hints), id


def test_ids_count_the_exercises_of_their_chapter():
    for stem in CHAPTERS:
        exercises = import_module(f"mha.exercises.{stem}").EXERCISES
        assert [exercise.id for exercise in exercises] == [
            f"{stem.replace('_', '-')}-{number}" for number in range(1, len(exercises) + 1)
        ]
        assert len(exercises) >= 4


def careless_softmax(scores, axis=-1):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis, keepdims=True)


def scaled(q, k, scale=1.0):
    return scale * q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])


@pytest.mark.parametrize(
    ("id", "answer", "name"),
    [
        ("dot-product-1", lambda scores: careless_softmax(scores, 0), "other-axis"),
        (
            "dot-product-5",
            lambda q, k, v, mask: careless_softmax(np.where(mask, q @ k.swapaxes(-1, -2), -np.inf)) @ v,
            "no-scale",
        ),
        (
            "dot-product-5",
            lambda q, k, v, mask: careless_softmax(np.where(mask, -np.inf, scaled(q, k))) @ v,
            "inverted",
        ),
        ("dot-product-6", lambda scores: careless_softmax(scores), "temperature-one"),
        ("first-look-1", lambda weights: np.diagonal(weights, 1).mean(-1), "next-token"),
    ],
)
def test_of_two_mistakes_the_one_that_shows_first_is_named(id, answer, name):
    assert check(id, answer).property == name


def test_mistakes_that_cannot_be_told_apart_are_diagnosed_by_property():
    def softmax_over_queries_without_scale(q, k):
        return careless_softmax(q @ k.swapaxes(-1, -2), -2)

    assert check("dot-product-2", softmax_over_queries_without_scale).property == "rows-sum-to-one"


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("id", [e.id for e in EXERCISES.values() if not e.is_on_paper])
def test_a_constant_is_not_taken_for_a_mistake(id, constant):
    def answer(*inputs):
        return np.full_like(EXERCISES[id].solve(*inputs), constant, dtype=float)

    assert check(id, answer).property not in EXERCISES[id].mistakes


def test_an_exercise_knows_its_parameters():
    exercise = Exercise(id="x-1", solve=lambda q, k: q, mistakes={})
    assert exercise.parameters == ("q", "k")
    assert not exercise.is_on_paper
    assert Exercise(id="x-2", solve=lambda: 1.0, mistakes={}).is_on_paper
