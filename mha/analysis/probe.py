"""Linear probes with controls: is a label in a representation, or only in the probe?

Features are (tokens, width), labels one a token, words one a token: the type that it is an instance of.
"""

from typing import NamedTuple

import numpy as np

from mha.integers import count

__all__ = ["LinearProbe", "ProbeScores", "control_labels", "fit_probe", "probe_scores", "split_tokens", "split_types"]


class LinearProbe(NamedTuple):
    """A linear map from features to one score a class; the largest score wins."""

    classes: np.ndarray  # (classes,)
    map: np.ndarray  # (width, classes)
    offset: np.ndarray  # (classes,)

    def predict(self, features):
        """Return the label of each row of features."""
        return self.classes[(np.asarray(features, np.float64) @ self.map + self.offset).argmax(-1)]

    def accuracy(self, features, labels):
        """Return the share of rows with the right label."""
        return float((self.predict(features) == np.asarray(labels)).mean())


class ProbeScores(NamedTuple):
    """Accuracies on tokens that the probe was not fitted to."""

    accuracy: float
    control: float  # of a probe for random labels of the words
    selectivity: float  # accuracy − control
    majority: float  # of the commonest label of the fitted tokens


def fit_probe(features: "Float[Array, 'n d']", labels, *, ridge=1.0) -> LinearProbe:
    """Return the linear map that is nearest to the labels, one column a class, by ridge regression.   Book: {eq}`probe`

    Features are centred and divided by their root mean square, one number for all columns, so that `ridge`, the price
    of a long map, means the same for every layer of every model.
    """
    features, labels = _checked(features, labels)
    if not ridge > 0:
        raise ValueError(f"ridge is {ridge}: expected more than 0")
    classes, number = np.unique(labels, return_inverse=True)
    targets = np.eye(len(classes))[number]
    centre, means = features.mean(0), targets.mean(0)
    size = np.sqrt(np.square(features - centre).mean()) or 1.0
    x, y = (features - centre) / size, targets - means
    if len(x) < x.shape[1]:  # the same map from the smaller system
        map = x.T @ np.linalg.solve(x @ x.T + ridge * np.eye(len(x)), y)
    else:
        map = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y)
    return LinearProbe(classes, map / size, means - centre / size @ map)


def control_labels(words, labels, rng):
    """Return a random label for each word, the same wherever it occurs: only memory can predict them.

    They are drawn from the labels of all tokens, so that common labels stay common. Hewitt and Liang (2019).
    """
    labels = np.asarray(labels)
    _check_lengths(words=words, labels=labels)
    types, number = np.unique(np.asarray(words), return_inverse=True)
    return rng.choice(labels, len(types))[number]


def split_tokens(words, rng, *, share=0.5):
    """Return a mask of the tokens to fit, `share` of all, drawn whatever their words: most words are on both sides."""
    return rng.permutation(len(words)) < _part(len(words), share)


def split_types(words, rng, *, share=0.5):
    """Return a mask of the tokens to fit, those of `share` of the words: no word is on both sides."""
    types, number = np.unique(np.asarray(words), return_inverse=True)
    return (rng.permutation(len(types)) < _part(len(types), share))[number]


def probe_scores(features, labels, words, fitted, rng, *, ridge=1.0) -> ProbeScores:
    """Return how well a probe does on the tokens that are not `fitted`, and the same for random labels of the words.

    With `split_tokens` the control says how much a probe can learn by heart; with `split_types` it can only guess.
    Selectivity: Hewitt and Liang (2019).   Book: {eq}`selectivity`
    """
    features, labels = _checked(features, labels)
    fitted = np.asarray(fitted, bool)
    _check_lengths(features=features, words=words, fitted=fitted)
    if not 0 < fitted.sum() < len(fitted):
        raise ValueError(f"fitted chooses {fitted.sum()} of {len(fitted)} tokens: expected some and not all")

    def tested(targets):
        probe = fit_probe(features[fitted], targets[fitted], ridge=ridge)
        return probe.accuracy(features[~fitted], targets[~fitted])

    accuracy, control = tested(labels), tested(control_labels(words, labels, rng))
    kinds, counts = np.unique(labels[fitted], return_counts=True)
    majority = float((labels[~fitted] == kinds[counts.argmax()]).mean())
    return ProbeScores(accuracy, control, accuracy - control, majority)


def _part(total, share):
    if not 0 < share < 1:
        raise ValueError(f"share is {share}: expected more than 0 and less than 1")
    return round(share * count("the number of words", total, least=2))


def _checked(features, labels):
    features, labels = np.asarray(features, np.float64), np.asarray(labels)
    if features.ndim != 2:
        raise ValueError(f"features has shape {features.shape}: expected (tokens, width)")
    if not np.isfinite(features).all():
        raise ValueError("features holds a NaN or an infinity: expected finite numbers")
    _check_lengths(features=features, labels=labels)
    return features, labels


def _check_lengths(**given):
    if len({len(x) for x in given.values()}) > 1 or not len(next(iter(given.values()))):
        found = ", ".join(f"{name} {len(x)}" for name, x in given.items())
        raise ValueError(f"numbers of tokens are {found}: expected one of each for every token, and a token at least")
