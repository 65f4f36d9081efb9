"""The verses of the alignment benchmark, and what aligns them without a network: the diagonal and IBM Model 1."""

from mha.analysis.metrics import alignment_error_rate
from mha.data import splits
from mha.data.tokenizer import BOS, EOS, CharacterTokenizer, padded
from mha.models import ibm1

ITERATIONS = 8


class Verses:
    """The verses as words, as token numbers and as links; `held_out` says which are not trained on."""

    def __init__(self, rows):
        self.greek, self.english = ([row[side].lower().split() for row in rows] for side in ("lemmas", "english"))
        self.gold = [{tuple(map(int, link.split("-"))) for link in row["links"].split()} for row in rows]
        self.names = [row["verse"] for row in rows]
        self.held_out = [splits.part(row["verse"].partition(":")[0]) == "test" for row in rows]
        texts = ([" ".join(words) for words in side] for side in (self.greek, self.english))
        self.source, self.target = (CharacterTokenizer(side, separator=" ") for side in texts)
        self.numbers = [
            (self.source.encode(" ".join(greek)), self.target.encode(" ".join(english)))
            for greek, english in zip(self.greek, self.english, strict=True)
        ]

    def which(self, held_out):
        """Return the numbers of the verses that are held out, or of the others."""
        return [verse for verse, out in enumerate(self.held_out) if out == held_out]

    def tensors(self, verses):
        """Return Greek and English words of these verses, the latter between BOS and EOS."""
        rows = [self.numbers[verse] for verse in verses]
        return padded([greek for greek, _ in rows])[0], padded([[BOS, *english, EOS] for _, english in rows])[0]

    def error(self, links, held_out=False):
        """Return the alignment error rate of the links of every verse, on one part."""
        part = self.which(held_out)
        return round(alignment_error_rate([links[v] for v in part], [self.gold[v] for v in part]), 4)


def diagonal(verses):
    """Link each English word to the Greek word at the same fraction of the verse."""
    pairs = zip(verses.greek, verses.english, strict=True)
    return [
        {((2 * j + 1) * len(greek) // (2 * len(english)), j) for j in range(len(english))} for greek, english in pairs
    ]


def by_ibm1(verses):
    """Return the error rates of IBM Model 1 in both directions and of the links that both find."""
    pairs = list(zip(verses.greek, verses.english, strict=True))
    forward, backward = ibm1.fit(pairs, ITERATIONS), ibm1.fit([(e, g) for g, e in pairs], ITERATIONS)
    to_english = [forward.align(greek, english) for greek, english in pairs]
    to_greek = [{(i, j) for j, i in backward.align(english, greek)} for greek, english in pairs]
    both = [a & b for a, b in zip(to_english, to_greek, strict=True)]
    found = {"ibm1": to_english, "ibm1_reversed": to_greek, "ibm1_intersection": both}
    return {name: verses.error(links) for name, links in found.items()}
