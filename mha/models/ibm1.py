"""IBM Model 1: word alignment by expectation maximisation, older than attention and still the mark to beat."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mha.integers import count

__all__ = ["IBM1", "fit"]


class IBM1:
    """The model after `fit`: `probability[i, j]` is t(target word j | source word i); row 0 is the empty word."""

    def __init__(
        self, source: dict[str, int], target: dict[str, int], probability: np.ndarray, likelihood: list[float]
    ):
        self.source, self.target, self.probability = source, target, probability
        self.likelihood = likelihood  # log-likelihood before each iteration and after the last

    def posterior(self, source: Sequence[str], target: Sequence[str]) -> "Float[Array, 'i j']":
        """Return for each target word j the probability that source word i made it; i = 0 is the empty word."""
        rows = [0, *_numbers("source", source, self.source)]
        weights = self.probability[np.ix_(rows, _numbers("target", target, self.target))]
        return weights / weights.sum(0)

    def align(self, source: Sequence[str], target: Sequence[str]) -> set[tuple[int, int]]:
        """Return the links (i, j) of each target word to its most probable source word; the empty word gives none."""
        best = self.posterior(source, target).argmax(0)
        return {(int(i) - 1, j) for j, i in enumerate(best) if i}


def fit(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], iterations: int = 10) -> IBM1:
    """Return IBM Model 1 (Brown et al. 1993) fitted to pairs of word lists.   Book: {eq}`ibm-model-1`.

    p(target | source) = ∏_j Σ_i t(target_j | source_i) / (l + 1), the sum over the l source words and the empty word.
    It starts from equal probabilities. No iteration lowers the likelihood, and its only maximum is reached from any
    start that is not zero.
    """
    if not pairs:
        raise ValueError("pairs is empty: expected at least one pair of word lists")
    sources, targets = zip(*pairs, strict=True)
    source, target = _vocabulary(sources, start=1), _vocabulary(targets, start=0)
    places = [
        np.ix_([0, *_numbers("source", first, source)], _numbers("target", second, target)) for first, second in pairs
    ]
    if not target:
        raise ValueError("pairs holds no target word: expected at least one")
    probability = np.full((len(source) + 1, len(target)), 1 / len(target))
    likelihood = []
    for last in [False] * count("iterations", iterations) + [True]:
        expected, total = np.zeros_like(probability), 0.0
        for place in places:
            weights = probability[place]
            mass = weights.sum(0)
            np.add.at(expected, place, weights / mass)
            total += np.log(mass / len(weights)).sum()
        likelihood.append(float(total))
        if not last:
            probability = expected / np.maximum(expected.sum(1, keepdims=True), np.finfo(float).tiny)
    return IBM1(source, target, probability, likelihood)


def _vocabulary(texts, start):
    for words in texts:
        if isinstance(words, str):
            raise TypeError(f"pairs holds {words!r}: expected lists of words")
    return {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(texts)), start)}


def _numbers(name, words, vocabulary):
    try:
        return [vocabulary[word] for word in words]
    except KeyError as unknown:
        raise ValueError(f"{name} holds {unknown.args[0]!r}, which the model was not fitted to") from None
