"""IBM Model 1 against its definition: a sum over every alignment of every word."""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest

from compare import assert_equal
from mha.models.ibm1 import fit

HOUSE = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]  # Knight (1999)
PAIRS = [(source.split(), target.split()) for source, target in HOUSE]
UNEQUAL = [(["a", "b", "a"], ["x", "y", "x"]), (["b"], ["x", "y", "z"]), ([], ["z"]), (["c"], [])]


def enumerated(pairs, iterations):
    """EM by hand: each alignment gives each target word a source word or None, and is weighed by its probability."""
    t = defaultdict(lambda: 1 / len({word for _, target in pairs for word in target}))
    history = []
    for _ in range(iterations + 1):
        counts, likelihood = defaultdict(float), 0.0
        for source, target in pairs:
            words = [None, *source]
            alignments = list(product(range(len(words)), repeat=len(target)))
            ways = [np.prod([t[words[i], word] for i, word in zip(a, target, strict=True)]) for a in alignments]
            likelihood += np.log(sum(ways) / len(words) ** len(target))
            for a, way in zip(alignments, ways, strict=True):
                for i, word in zip(a, target, strict=True):
                    counts[words[i], word] += way / sum(ways)
        history.append((dict(t), likelihood))
        totals = defaultdict(float)
        for (source, _), count in counts.items():
            totals[source] += count
        t = defaultdict(float, {pair: count / totals[pair[0]] for pair, count in counts.items()})
    return history


@pytest.mark.parametrize("pairs", [PAIRS, UNEQUAL], ids=["house", "unequal"])
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_fit_is_em_over_all_alignments(pairs, iterations):
    model, history = fit(pairs, iterations), enumerated(pairs, iterations)
    assert_equal(
        np.array(model.likelihood), np.array([likelihood for _, likelihood in history]), rtol=1e-12, label="likelihood"
    )
    rows = {None: 0} | model.source
    for (source, target), probability in history[-1][0].items():
        assert_equal(
            model.probability[rows[source], model.target[target]], probability, rtol=1e-12, label=f"{source}, {target}"
        )


def test_likelihood_never_falls_and_rows_are_distributions():
    random = np.random.default_rng(0)
    words = [[f"{side}{n}" for n in random.integers(0, 11, random.integers(1, 7))] for side in "st" for _ in range(30)]
    model = fit(list(zip(words[:30], words[30:], strict=True)), 20)
    assert len(model.likelihood) == 21
    assert (np.diff(model.likelihood) >= -1e-9).all()
    assert model.likelihood[-1] > model.likelihood[0] + 1
    assert_equal(model.probability.sum(1), np.ones(len(model.source) + 1), rtol=1e-12, label="rows")


def test_what_goes_together_is_linked():
    """`the` stands with `das` in both verses, so `Haus` is left for `house`, though no pair says so alone."""
    model = fit(PAIRS, 30)
    assert model.align(["das", "Haus"], ["the", "house"]) == {(0, 0), (1, 1)}
    assert model.align(["Buch", "ein"], ["a", "book"]) == {(0, 1), (1, 0)}
    assert model.posterior(["das", "Haus"], ["the", "house"])[2, 1] > 0.8


def test_the_empty_word_takes_what_has_no_source():
    pairs = [([word], [word.upper(), "um"]) for word in "abcde"]
    assert fit(pairs, 20).align(["a"], ["A", "um"]) == {(0, 0)}


def test_no_iteration_leaves_equal_probabilities():
    model = fit(PAIRS, 0)
    assert (model.probability == 1 / 4).all()
    assert model.posterior(["das"], ["the"]).tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fit([]), ValueError, r"pairs is empty"),
        (lambda: fit(PAIRS, -1), ValueError, r"iterations is -1: expected at least 0"),
        (lambda: fit(PAIRS, 1.5), TypeError, r"iterations is 1\.5: expected an integer"),
        (lambda: fit([("das Haus", ["the"])]), TypeError, r"pairs holds 'das Haus': expected lists of words"),
        (lambda: fit(PAIRS).align(["der"], ["the"]), ValueError, r"source holds 'der', which the model was not fitted"),
        (lambda: fit(PAIRS).align(["das"], ["these"]), ValueError, r"target holds 'these', which the model was not"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_pairs_without_a_target_word_are_refused():
    with pytest.raises(ValueError, match="pairs holds no target word: expected at least one"):
        fit([(["a"], [])])
