"""How good is a model without some of its heads, and by which score?   python benchmarks/pruning.py [MODEL ...]

Nothing is trained: `smollm2`, SmolLM2-135M-Instruct (270 heads), and `minilm`, all-MiniLM-L6-v2 (72 heads), as their
weights are. Heads go at once in the order of a score, the least first, up to 60 %; each layer keeps its best.
`iterated` asks the gradient again after every 10 %. Scores come from other text than what is measured; `ablation` is
that of `benchmarks/redundancy.py`, whose chapters are others too. A head that is gone counts as zero: the model without
it is the same (`tests/analysis/test_prune.py`).

Each measurement adds a line to the log, and what is there is not run again. Without a log, about 15 minutes of one
core, most of them for the decoder. `--tiny` runs all on less and writes nothing.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from generation import said_twice
from provenance import save

from mha import masks
from mha.analysis import (
    entropy_scores,
    mask_gradients,
    normalised_by_layer,
    pruning_order,
    random_scores,
    weight_norms,
    without_heads,
)
from mha.data import load, pretrained, result

FOLDER = Path(__file__).parent
LOG = FOLDER / "logs/pruning.jsonl"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
SEEDS, STEPS = range(5), 6
SCORED, MEASURED, LENGTH = (10, 70, 95, 130), (41, 50, 104), 256  # chapters of the book, and tokens of each
WORDS, DRAWS = 50, (30, 31)
SENTENCES, SHORTEST, LONGEST = 32, 40, 160


def chapters(known, numbers, length):
    """Return the first tokens of chapters behind the start token: (chapters, length)."""
    texts = load("moby_dick")["text"]
    return torch.cat([known.encode(texts[n - 1][: 8 * length])[:, :length] for n in numbers])


class Decoding:
    """What the decoder is scored by and measured on: the surprise of the next token."""

    effects = "book"

    def __init__(self, known, tiny):
        self.model, self.tiny = known.model, tiny
        length = 12 if tiny else LENGTH
        self.scored, book = (chapters(known, numbers[: 1 if tiny else None], length) for numbers in (SCORED, MEASURED))
        verses = load("bible_en_es")["en"]
        words = 4 if tiny else WORDS
        self.measured = {
            "book": (book, 0),
            "verses": (known.encode(" ".join(verses[1000:1060]))[:, :length], 0),
            "copying": (said_twice(known, DRAWS, words), words),
        }

    def quality(self):
        """Return the loss in nats per token on each kind of text; of random tokens said twice, of the second copy."""
        with torch.no_grad():
            return {name: float(losses(self.model, *rows).mean()) for name, rows in self.measured.items()}

    def gradients(self):
        return np.mean([mask_gradients(self.model, partial(losses, rows=row[None])) for row in self.scored], 0)

    def entropies(self):
        """Return the entropy scores with the start token and without it."""
        maps = [self.model.attention_maps(row[None])[:, 0].double().numpy() for row in self.scored]
        whole, rest = ([entropy_scores(m[..., s:, s:], masks.causal) for m in maps] for s in (0, 1))
        return {"entropy": np.mean(whole, 0), "entropy_without_start": np.mean(rest, 0)}


def losses(model, rows, start=0):
    """Return the mean surprise of each row from token `start` + 1 on, in nats."""
    logits = model(rows)[:, start:-1]
    return F.cross_entropy(logits.mT, rows[:, start + 1 :], reduction="none").mean(-1)


class Encoding:
    """What the encoder is scored by and measured on: the vectors of sentences."""

    effects = "sentences"

    def __init__(self, known, tiny):
        self.known, self.model = known, known.model
        self.scored, self.measured = (self.rows(sentences(third, tiny)) for third in (0, 2))
        lines = (FOLDER.parent / "tools/sentence_triplets.txt").read_text(encoding="utf-8").splitlines()
        triplets = [np.array(line.split(" | "))[[0, 1, 3]] for line in lines[: 2 if tiny else None]]
        self.triplets = self.rows(np.concatenate(triplets))
        with torch.no_grad():
            self.whole = self.vectors(self.measured)

    def rows(self, texts):
        """Return sentences as tokens, padded behind, and how many each has."""
        rows = [self.known.encode(str(text))[0] for text in texts]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    def vectors(self, rows):
        """Return the mean of the last states of each sentence, of length 1."""
        tokens, lengths = rows
        inside = torch.arange(tokens.shape[-1]) < lengths[:, None]
        states = self.model(tokens, mask=masks.lengths(lengths)) * inside[..., None]
        return F.normalize(states.sum(1), dim=-1)

    def quality(self):
        """Return the cosine with the vector of the whole model, and how often a paraphrase is nearer than another."""
        with torch.no_grad():
            cosine = (self.vectors(self.measured) * self.whole).sum(-1).mean()
            first, paraphrase, other = self.vectors(self.triplets).unflatten(0, (-1, 3)).unbind(1)
        nearer = ((first * paraphrase).sum(-1) > (first * other).sum(-1)).double().mean()
        return {"cosine": float(cosine), "paraphrases": float(nearer)}

    def gradients(self):
        """Return slopes of the vectors along random directions: the cosine is at its best, where its own slope is 0."""
        directions = torch.randn(2, self.whole.shape[-1], generator=torch.Generator().manual_seed(0))
        slopes = [mask_gradients(self.model, lambda _, d=d: self.vectors(self.scored) @ d) for d in directions]
        return np.mean(slopes, 0)

    def entropies(self):
        maps = [
            self.known.model.attention_maps(row[None, :n])[:, 0].numpy() for row, n in zip(*self.scored, strict=True)
        ]
        return {"entropy": np.mean([entropy_scores(m) for m in maps], 0)}


def sentences(third, tiny):
    """Return sentences of the book from all over it, one a chapter from one of its thirds, none very short or long."""
    split = [text.replace("\n", " ").split(". ") for text in load("moby_dick")["text"]]
    fitting = [[s for s in chapter if SHORTEST <= len(s) <= LONGEST] for chapter in split]
    rich = [chapter for chapter in fitting if len(chapter) >= 3]
    count = 3 if tiny else SENTENCES
    return [chapter[len(chapter) * third // 3] + "." for chapter in rich][:: len(rich) // count][:count]


def scores_of(task):
    """Return the scores of each head by what is known of the whole model: (layers, heads), four digits each."""
    gradient = task.gradients()
    found = {"gradient": gradient, "gradient_by_layer": normalised_by_layer(gradient)}
    found |= task.entropies() | {"weight_norm": weight_norms(task.model)}
    return {name: rounded(scores) for name, scores in found.items()}


def ablation(task):
    """Return what each head alone is worth, as `benchmarks/redundancy.py` has found it; nothing if it has not run."""
    try:
        return {"ablation": result("redundancy")[task.effects]["effects"]}
    except (KeyError, ValueError):
        print("no ablation: run benchmarks/redundancy.py first", flush=True)
        return {}


def rounded(x):
    """Return the numbers with four digits each, as lists."""
    return [[float(f"{value:.4g}") for value in row] for row in np.asarray(x)]


def orders_of(task, scores):
    """Return the order in which heads go: by each score, by layer, by two of them the other way round, by chance."""
    orders = {name: pruning_order(values) for name, values in scores.items()}
    for name in ("entropy", "weight_norm"):
        orders[f"{name}_by_layer"] = pruning_order(normalised_by_layer(scores[name]))
    orders["focused_first"] = pruning_order(-np.array(scores["entropy"]))
    if "ablation" in scores:
        orders["best_first"] = pruning_order(-np.array(scores["ablation"]))
    for seed in SEEDS:
        orders[f"random_{seed}"] = pruning_order(random_scores(task.model, np.random.default_rng(seed)))
    return orders


def iterated(task, steps):
    """Return the order in which heads go if the gradient is asked again each time a tenth is gone."""
    gone = []
    for _ in range(steps):
        with without_heads(task.model, gone):
            scores = task.gradients()
        for pair in gone:
            scores[pair] = np.nan
        gone += pruning_order(scores)[: round(scores.size / 10)]
    return gone


class Log:
    """Lines of JSON in a file, or in memory alone: what was measured, by a key."""

    def __init__(self, path=None):
        self.path, self.found = path, {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, value = json.loads(line)
                self.found[tuple(key)] = value

    def get(self, key, measure):
        """Return what is known under the key, or measure it and write it down."""
        if key not in self.found:
            self.found[key] = measure()
            print(*key, flush=True)
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, self.found[key]]) + "\n")
        return self.found[key]


def curves(name, task, log, tiny):
    """Return scores, and the quality after each share of the heads is gone, by each order."""
    scores = log.get((name, "scores"), lambda: scores_of(task)) | ablation(task)
    orders = orders_of(task, scores)
    again = log.get((name, "order", "iterated"), lambda: iterated(task, 1 if tiny else STEPS))
    orders["iterated"] = [tuple(pair) for pair in again]
    total, whole = np.size(scores["gradient"]), log.get((name, "whole", 0), task.quality)
    counts = [round(total * share) for share in SHARES[: 1 if tiny else None]]

    def without(heads):
        with without_heads(task.model, heads):
            return task.quality()

    found = {kind: {} for kind in whole}
    for order, pairs in orders.items():
        steps = [log.get((name, order, count), lambda n=count, pairs=pairs: without(pairs[:n])) for count in counts]
        for kind, of in found.items():
            of[order] = [round(step[kind], 4) for step in (whole, *steps)]
    names = [f"{layer}.{head}" for layer, head in orders["iterated"]]
    return {"heads": total, "removed": [0, *counts], "quality": found, "scores": scores, "iterated": " ".join(names)}


TASKS = {"smollm2": Decoding, "minilm": Encoding}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"which: {', '.join(TASKS)}; all by default")
    parser.add_argument("--tiny", action="store_true", help="both models on less, nothing written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(None if given.tiny else LOG)
    known = {name: pretrained(name) for name in TASKS}
    try:
        found = {} if given.tiny else {name: x for name, x in result("pruning").items() if name in TASKS}
    except ValueError:
        found = {}
    for name in given.models or TASKS:
        found[name] = curves(name, TASKS[name](known[name], given.tiny), log, given.tiny)
        if not given.tiny:
            setting = {model: pre.describe() for model, pre in known.items()}
            setting |= {"scored_chapters": SCORED, "measured_chapters": MEASURED, "random_orders": len(SEEDS)}
            save("pruning", {"setting": setting, **found}, note="loss in nats per token; nothing trained")


if __name__ == "__main__":
    main()
