"""How far a prediction is from what was expected: of symbols, of alignments, and of an order."""

from collections.abc import Collection, Sequence

import numpy as np

__all__ = ["alignment_error_rate", "edit_distance", "error_rate", "phoneme_error_rate", "rank_correlation"]

Links = Collection[tuple[int, int]]


def edit_distance(predicted: Sequence, expected: Sequence) -> int:
    """Return the least number of insertions, deletions and replacements between two sequences. Levenshtein (1966)."""
    row = list(range(len(expected) + 1))
    for i, symbol in enumerate(predicted, start=1):
        diagonal, row[0] = row[0], i
        for j, wanted in enumerate(expected, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (symbol != wanted))
    return row[-1]


def error_rate(predicted: Sequence[Sequence], expected: Sequence[Sequence]) -> float:
    """Return the edit distance over all pairs, divided by the length of all that was expected: 0 is perfect.

    Each is a sequence of symbols: of words (word error rate), characters or phonemes. More than 1 is possible.
    """
    if len(predicted) != len(expected):
        raise ValueError(f"predicted has {len(predicted)} sequences and expected {len(expected)}: expected as many")
    length = sum(map(len, expected))
    if not length:
        raise ValueError("expected holds no symbol: an error rate is a part of what was expected")
    return sum(map(edit_distance, predicted, expected)) / length


def phoneme_error_rate(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Return the error rate of pronunciations, written as phonemes with spaces between: "HH AH L OW"."""
    for name, texts in (("predicted", predicted), ("expected", expected)):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{name} is {texts!r}: expected several strings, of phonemes with spaces between")
    return error_rate([text.split() for text in predicted], [text.split() for text in expected])


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """Return 1 − (#(A ∩ S) + #(A ∩ P)) / (#A + #S) over all sentences, # for how many.   Book: {eq}`alignment-error`.

    A holds the predicted links (i, j), S the sure ones and P the possible ones, the sure among them; left out, P = S,
    and the rate is 1 − F₁ of the links. Och and Ney (2003).
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise ValueError(
            f"predicted, sure and possible have {len(predicted)}, {len(sure)} and {len(possible)} sentences: "
            "expected as many of each"
        )
    found = total = 0
    for links, certain, allowed in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        found += len(links & certain) + len(links & (allowed | certain))
        total += len(links) + len(certain)
    if not total:
        raise ValueError("predicted and sure hold no link: the rate of nothing is not defined")
    return 1 - found / total


def rank_correlation(x, y) -> float:
    """Return the correlation of the ranks of two lists of numbers: 1 for the same order, −1 for the opposite one.

    Equal numbers share their mean rank. Spearman (1904).
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise ValueError(f"x and y have shapes {x.shape} and {y.shape}: expected two lists of equally many numbers")
    x, y = (ranks - ranks.mean() for ranks in (_ranks(x), _ranks(y)))
    sizes = np.linalg.norm(x) * np.linalg.norm(y)
    if not sizes:
        raise ValueError("x or y holds one number over and over: it has no order")
    return float(x @ y / sizes)


def _ranks(x):
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[place]
