"""The two tasks of `translation.py`: their pairs, batches, loss, greedy output and scores."""

from dataclasses import dataclass
from functools import cached_property

import sacrebleu
import torch

from mha.analysis.metrics import phoneme_error_rate
from mha.data import load
from mha.data.tokenizer import BOS, EOS, PAD, CharacterTokenizer, padded, train_bpe
from mha.models.translation import translate, translation_loss


@dataclass(frozen=True)
class Task:
    """A table of pairs, and how long and with what sizes models are trained on it."""

    name: str
    checkpoint: str
    score: str  # the one that is drawn over time
    table: str
    columns: tuple[str, str]  # source, target
    steps: int
    tuning_steps: int
    batch: int
    longest: int  # of the output, in tokens
    tested: int = 1  # take every so many-th pair of the test part
    merged: int = 0  # the size of the vocabularies of byte pairs; without it, letters and phonemes

    @cached_property
    def texts(self):
        """Return the pairs of texts of each part of the data."""
        parts = {part: load(self.table, split=part) for part in ("train", "validation", "test")}
        pairs = {
            part: list(zip(*(rows[column] for column in self.columns), strict=True)) for part, rows in parts.items()
        }
        return pairs | {"test": pairs["test"][:: self.tested]}

    @cached_property
    def tokenizers(self):
        """Return a tokenizer for each side: byte pairs of the training part, or all letters and all phonemes."""
        source, target = self.columns
        if self.merged:
            rows = load(self.table)
            return train_bpe(rows[source], self.merged), train_bpe(rows[target], self.merged)
        rows = load(self.table, split="all")
        return CharacterTokenizer(rows[source]), CharacterTokenizer(rows[target], separator=" ")

    @cached_property
    def tokens(self):
        """Return, for each part, padded sources with EOS behind, and targets between BOS and EOS."""
        of_source, of_target = self.tokenizers
        return {
            part: (
                padded([[*of_source.encode(source), EOS] for source, _ in pairs])[0],
                padded([[BOS, *of_target.encode(target), EOS] for _, target in pairs])[0],
            )
            for part, pairs in self.texts.items()
        }

    def batches(self, seed):
        """Return what gives the batch of a step: pairs drawn by seed and step, cut to the longest of them."""
        source, target = self.tokens["train"]

        def batch(step):
            generator = torch.Generator().manual_seed(1_000_000 * seed + step)
            drawn = torch.randint(len(source), (self.batch,), generator=generator)
            return tuple(rows[:, : int((rows != PAD).sum(1).max())] for rows in (source[drawn], target[drawn]))

        return batch

    @torch.no_grad()
    def held_out(self, model):
        """Return what is to be lowered on the validation part: the loss in nats a token.

        With few texts the loss rises again, by ever surer errors, while translations still improve: there it is 100
        minus the chrF.
        """
        if self.merged:
            sources, references = zip(*self.texts["validation"], strict=True)
            return 100 - word_scores(self.outputs(model, sources), references)["chrf"]
        source, target = self.tokens["validation"]
        return float(translation_loss(model, (source[:500], target[:500])))

    def outputs(self, model, sources, size=250, **search):
        """Return what the model writes for each source text; `search` is that of `translate`, greedy by default."""
        of_source, of_target = self.tokenizers
        rows, written = [[*of_source.encode(source), EOS] for source in sources], []
        for start in range(0, len(rows), size):
            written += translate(model, rows[start : start + size], self.longest, **search)
        return [of_target.decode(row) for row in written]

    def scores(self, model, **search):
        """Return the scores on the test part, and on the part of it whose source words all occur in training."""
        sources, references = zip(*self.texts["test"], strict=True)
        written = self.outputs(model, sources, **search)
        if not self.merged:
            return phoneme_scores(written, references)
        seen = {word for source, _ in self.texts["train"] for word in source.split()}
        known = [n for n, source in enumerate(sources) if seen.issuperset(source.split())]
        of_known = word_scores([written[n] for n in known], [references[n] for n in known])
        return word_scores(written, references) | {f"seen_{name}": score for name, score in of_known.items()}


def word_scores(written, references):
    """Score whole texts: the share that is right, and BLEU and chrF by sacrebleu."""
    exact = sum(a == b for a, b in zip(written, references, strict=True)) / len(references)
    scores = (metric.corpus_score(written, [references]).score for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()))
    length = sum(map(len, written)) / len(written)
    return dict(
        zip(("items", "length", "exact", "bleu", "chrf"), (len(references), length, exact, *scores), strict=True)
    )


def phoneme_scores(written, references):
    """Score pronunciations: the share of words that are wrong, and the edits a phoneme."""
    wrong = sum(a != b for a, b in zip(written, references, strict=True))
    return {
        "items": len(references),
        "length": sum(len(text.split()) for text in written) / len(written),
        "word_error": wrong / len(references),
        "phoneme_error": phoneme_error_rate(written, references),
    }


TASKS = {
    "phonemes": Task(
        name="phonemes",
        checkpoint="grapheme_phoneme",
        score="phoneme_error",
        table="grapheme_phoneme",
        columns=("word", "phonemes"),
        steps=1200,
        tuning_steps=200,
        batch=32,
        longest=24,
        tested=20,
    ),
    "emoji": Task(
        name="emoji",
        checkpoint="emoji_translation",
        score="chrf",
        table="emoji_names",
        columns=("en", "es"),
        steps=450,
        tuning_steps=100,
        batch=64,
        longest=24,
        merged=1000,
    ),
}
