"""Translating and scoring: brevity, matched n-grams, alignment error, beams, length penalty, the mask of a source."""

from collections import Counter

import numpy as np

from mha.exercises.exercise import Exercise


def brevity_penalty(length, reference_length):
    return np.exp(np.minimum(0, 1 - reference_length / length))


def _grams(tokens, n):
    return Counter(tuple(tokens[i : i + n].tolist()) for i in range(len(tokens) - n + 1))


def clipped_precision(output, reference, n):
    found, wanted = _grams(output, n), _grams(reference, n)
    return (found & wanted).total() / found.total()


def alignment_error(found, sure, possible):
    return 1 - ((found & sure).sum() + (found & possible).sum()) / (found.sum() + sure.sum())


def best_extensions(scores, log_probs, width):
    total = scores[:, None] + log_probs
    best = np.argsort(-total, axis=None)[:width]
    return np.stack(np.unravel_index(best, total.shape), axis=1)


def penalised(log_prob, length, alpha):
    return log_prob / ((5 + length) / 6) ** alpha


def cross_mask(keep, num_targets):
    return np.repeat(keep[:, None, None], num_targets, axis=2)


BREVITY = Exercise(
    id="translation-1",
    solve=brevity_penalty,
    cases=lambda rng: [
        (np.array([4.0, 5.0, 6.0]), np.array([5.0, 5.0, 5.0])),
        (rng.integers(1, 40, 7) * 1.0, rng.integers(1, 40, 7) * 1.0),
    ],
    mistakes={
        "long-rewarded": lambda length, reference_length: np.exp(1 - reference_length / length),
        "long-punished": lambda length, reference_length: brevity_penalty(reference_length, length),
        "ratio": lambda length, reference_length: np.minimum(1, length / reference_length),
        "difference": lambda length, reference_length: np.exp(np.minimum(0, length - reference_length)),
        "relative-to-reference": lambda length, reference_length: np.exp(np.minimum(0, length / reference_length - 1)),
    },
    properties={"at-most-one": lambda output, length, reference_length: (output <= 1).all()},
)

PRECISION = Exercise(
    id="translation-2",
    solve=clipped_precision,
    cases=lambda rng: [
        (np.array([3, 3, 3, 3, 5]), np.array([3, 6, 3]), 1),
        (np.array([3, 5, 3, 5, 3, 4, 4, 7]), np.array([5, 3, 5, 4, 4, 7, 4, 4, 7, 1, 2]), 2),
        *((rng.integers(3, 6, 11), rng.integers(3, 6, 7), n) for n in (1, 2, 3)),
    ],
    mistakes={
        "not-clipped": lambda output, reference, n: (
            sum(count for gram, count in _grams(output, n).items() if gram in _grams(reference, n))
            / _grams(output, n).total()
        ),
        "recall": lambda output, reference, n: clipped_precision(reference, output, n),
        "distinct": lambda output, reference, n: (
            len(_grams(output, n).keys() & _grams(reference, n).keys()) / len(_grams(output, n))
        ),
        "counted-once": lambda output, reference, n: (
            len(_grams(output, n).keys() & _grams(reference, n).keys()) / _grams(output, n).total()
        ),
        "single-tokens": lambda output, reference, n: clipped_precision(output, reference, 1),
        "not-divided": lambda output, reference, n: (_grams(output, n) & _grams(reference, n)).total(),
        "same-place": lambda output, reference, n: np.mean(
            [tuple(output[i : i + n]) == tuple(reference[i : i + n]) for i in range(len(output) - n + 1)]
        ),
        "divided-by-tokens": lambda output, reference, n: (
            (_grams(output, n) & _grams(reference, n)).total() / len(output)
        ),
    },
    properties={"is-share": lambda output, *inputs: 0 <= output <= 1},
)


def _links(rng, shape):
    """Draw the links of a system and of people, as three boolean maps; what is sure is also possible."""
    found, sure, maybe = (rng.random(shape) < share for share in (0.4, 0.3, 0.3))
    sure[0, 0] = found[0, 0] = True
    return found, sure, sure | maybe


def _share(part, whole):
    return (part & whole).sum() / whole.sum()


ERROR = Exercise(
    id="translation-3",
    solve=alignment_error,
    cases=lambda rng: [_links(rng, shape) for shape in ((2, 3), (5, 7), (7, 3))],
    mistakes={
        "agreement": lambda found, sure, possible: 1 - alignment_error(found, sure, possible),
        "sure-alone": lambda found, sure, possible: alignment_error(found, sure, sure),
        "possible-alone": lambda found, sure, possible: alignment_error(found, possible, possible),
        "precision": lambda found, sure, possible: 1 - _share(possible, found),
        "recall": lambda found, sure, possible: 1 - _share(found, sure),
        "all-pairs": lambda found, sure, possible: (found != sure).mean(),
        "averaged": lambda found, sure, possible: 1 - (_share(possible, found) + _share(found, sure)) / 2,
        "divided-by-possible": lambda found, sure, possible: (
            1 - ((found & sure).sum() + (found & possible).sum()) / (found.sum() + possible.sum())
        ),
    },
    properties={"is-share": lambda output, *inputs: 0 <= output <= 1},
)


def _beams(rng, beams, vocab, width):
    logits = 2 * rng.standard_normal((beams, vocab))
    scores = -3 * rng.random(beams)
    return scores, logits - np.log(np.exp(logits).sum(-1, keepdims=True)), width


EXTENSIONS = Exercise(
    id="translation-4",
    solve=best_extensions,
    cases=lambda rng: [
        (np.log([0.5, 0.4]), np.log([[0.4, 0.35, 0.25], [0.9, 0.06, 0.04]]), 2),
        _beams(rng, 3, 7, 3),
        _beams(rng, 1, 5, 4),
        _beams(rng, 5, 11, 5),
    ],
    mistakes={
        "past-forgotten": lambda scores, log_probs, width: best_extensions(0 * scores, log_probs, width),
        "each-its-best": lambda scores, log_probs, width: np.stack(
            [np.arange(len(scores)), log_probs.argmax(-1)], axis=1
        ),
        "best-beam-alone": lambda scores, log_probs, width: best_extensions(
            np.where(np.arange(len(scores)) == scores.argmax(), scores, -1e9), log_probs, width
        ),
        "worst-first": lambda scores, log_probs, width: best_extensions(-scores, -log_probs, width),
        "logarithms-multiplied": lambda scores, log_probs, width: best_extensions(
            0 * scores, scores[:, None] * log_probs, width
        ),
        "token-first": lambda scores, log_probs, width: best_extensions(scores, log_probs, width)[:, ::-1],
        "flat": lambda scores, log_probs, width: np.argsort(-(scores[:, None] + log_probs), axis=None)[:width],
        "a-row-too-many": lambda scores, log_probs, width: best_extensions(scores, log_probs, width + 1),
    },
)

PENALTY = Exercise(
    id="translation-5",
    solve=penalised,
    cases=lambda rng: [
        (np.array([-4.0, -5.0, -4.5]), np.array([3.0, 6.0, 7.0]), 1.0),
        (-9 * rng.random(7), rng.integers(1, 30, 7) * 1.0, 0.6),
        (-9 * rng.random(5), rng.integers(1, 30, 5) * 1.0, 0.0),
    ],
    mistakes={
        "multiplied": lambda log_prob, length, alpha: log_prob * ((5 + length) / 6) ** alpha,
        "length-alone": lambda log_prob, length, alpha: log_prob / length**alpha,
        "mean": lambda log_prob, length, alpha: log_prob / length,
        "no-penalty": lambda log_prob, length, alpha: log_prob * 1.0,
        "times-alpha": lambda log_prob, length, alpha: log_prob / (alpha * (5 + length) / 6),
        "reward": lambda log_prob, length, alpha: log_prob + alpha * length,
        "six-forgotten": lambda log_prob, length, alpha: log_prob / (5 + length) ** alpha,
    },
    properties={"negative": lambda output, log_prob, length, alpha: (output <= 0).all()},
)

MASK = Exercise(
    id="translation-6",
    solve=cross_mask,
    cases=lambda rng: [
        (np.array([[True, True, True], [True, False, False]]), 2),
        (np.arange(7) < rng.integers(1, 8, (3, 1)), 5),
        (np.arange(5) < rng.integers(1, 6, (2, 1)), 5),
    ],
    mistakes={
        "hides-the-words": lambda keep, num_targets: ~cross_mask(keep, num_targets),
        "targets-across": lambda keep, num_targets: cross_mask(keep, num_targets).swapaxes(2, 3),
        "causal-too": lambda keep, num_targets: (
            cross_mask(keep, num_targets) & np.tri(num_targets, keep.shape[1], dtype=bool)
        ),
        "no-head-axis": lambda keep, num_targets: cross_mask(keep, num_targets)[:, 0],
        "all-see-all": lambda keep, num_targets: np.ones_like(cross_mask(keep, num_targets)),
        "causal-alone": lambda keep, num_targets: (
            np.ones((len(keep), 1, 1, 1), bool) & np.tri(num_targets, keep.shape[1], dtype=bool)
        ),
    },
)

FIRST, THEN = (0.5, 0.4, 0.1), (0.4, 0.9, 1.0)  # the tree of the text: a first token, the best that can follow it
BEST = max(p * q for p, q in zip(FIRST, THEN, strict=True))

GREEDY = Exercise(
    id="translation-7",
    solve=lambda: BEST / (FIRST[0] * THEN[0]),
    mistakes={
        "the-best": lambda: BEST,
        "the-greedy": lambda: FIRST[0] * THEN[0],
        "upside-down": lambda: FIRST[0] * THEN[0] / BEST,
        "first-step": lambda: FIRST[1] / FIRST[0],
        "second-step": lambda: THEN[1] / THEN[0],
        "difference": lambda: BEST - FIRST[0] * THEN[0],
        "added": lambda: (FIRST[1] + THEN[1]) / (FIRST[0] + THEN[0]),
        "surest-end": lambda: FIRST[2] * THEN[2] / (FIRST[0] * THEN[0]),
    },
    tolerance=1e-6,
)

EXERCISES = (BREVITY, PRECISION, ERROR, EXTENSIONS, PENALTY, MASK, GREEDY)
