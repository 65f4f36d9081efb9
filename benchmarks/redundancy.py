"""What is lost without one head, for each of 342 real ones?   python benchmarks/redundancy.py [PART ...]

Nothing is trained: SmolLM2-135M-Instruct (270 heads) and all-MiniLM-L6-v2 (72 heads) as their weights are, one head
silenced at a time (Michel et al. 2019). Parts: `book` and `copying`, the decoder's loss on chapters of Moby Dick and on
the second copy of random tokens; `sentences`, the encoder's vectors of sentences; `pairs`, two induction heads silenced
at once, and `twins`, two heads of one layer. What the layers before a silenced head do is worked out once.

Each layer adds a line to the log, and what is there is not run again. Without a log, about 10 minutes of one free
core, most of them for `book`. The result file is a summary of the log. `--tiny` runs all on less and writes nothing.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import torch
from generation import said_twice, table
from provenance import save
from torch.nn import functional as F

from mha import masks
from mha.analysis import without_heads
from mha.data import capture, load, pretrained, result

FOLDER = Path(__file__).parent
LOG = FOLDER / "logs/redundancy.jsonl"
CHAPTERS, LENGTH = (1, 28), 256
WORDS, DRAWS = 50, range(20, 22)
SENTENCES, SHORTEST, LONGEST = 64, 40, 160
PAIRED, TWINS = 8, 2  # induction heads that are silenced two by two; pairs of each layer


def book(known, tiny):
    """Return the first tokens of some chapters behind the start token, and where the scored targets begin."""
    texts, length = load("moby_dick")["text"], 8 if tiny else LENGTH
    rows = [known.encode(texts[n - 1][: 8 * length])[:, : length + 1] for n in CHAPTERS[: 1 if tiny else None]]
    return torch.cat(rows), 1


def copying(known, tiny):
    """Return random tokens said twice, of which the second copy is scored."""
    words = 5 if tiny else WORDS
    return said_twice(known, DRAWS[:1] if tiny else DRAWS, words), words + 1


class Decoding:
    """The loss of the decoder on some rows from any layer on, what enters the layer being known."""

    def __init__(self, known, rows, start):
        self.model, self.rows, self.start = known.model, rows, start
        self.entering = [known.model.embed(rows)]
        for block in known.model.blocks:
            self.entering.append(block(self.entering[-1], mask=masks.causal))

    def loss(self, heads=()):
        """Return the loss of each row in nats per token, without these heads."""
        first = min((layer for layer, _ in heads), default=len(self.model.blocks))
        x = self.entering[first]
        with without_heads(self.model, heads):
            for block in self.model.blocks[first:]:
                x = block(x, mask=masks.causal)
        return np.array([self._row(*row) for row in zip(x, self.rows, strict=True)])

    def _row(self, x, tokens):
        logits = self.model.logits(x[self.start - 1 : -1])
        return float(F.cross_entropy(logits, tokens[self.start :]))

    def change(self, heads):
        """Return how much the loss of each row rises without these heads."""
        return self.loss(heads) - self.whole

    @property
    def whole(self):
        return self.__dict__.setdefault("_whole", self.loss())


class Encoding:
    """The vectors that the encoder gives to some sentences: the mean of the last states, of length 1."""

    def __init__(self, known, sentences):
        self.model = known.model
        self.rows = [known.encode(sentence) for sentence in sentences]
        self.whole = self.vectors()

    def vectors(self, heads=()):
        with without_heads(self.model, heads):
            return torch.cat([F.normalize(self.model(row).mean(1), dim=-1) for row in self.rows]).double().numpy()

    def turned(self, heads):
        """Return 1 − cosine of each vector with that of the whole model."""
        return 1 - (self.vectors(heads) * self.whole).sum(-1)


def chosen_sentences(tiny=False):
    """Return sentences of the book from all over it, none very short or long."""
    chapters = [text.replace("\n", " ").split(". ") for text in load("moby_dick")["text"]]
    fitting = [[s for s in chapter if SHORTEST <= len(s) <= LONGEST] for chapter in chapters]
    count = 4 if tiny else SENTENCES
    return [chapter[len(chapter) // 2] + "." for chapter in fitting if chapter][:: len(fitting) // count][:count]


def all_heads(part, change, model, log):
    """Return what `change` tells of each head, (layers, heads, …); a layer that the log holds is not run again."""
    done = {line["layer"]: line["change"] for line in log.lines if line["part"] == part}
    layers = range(model.config.num_layers)[-1 if log.path is None else 0 :]
    for layer in layers:
        if layer not in done:
            found = [change([(layer, head)]) for head in range(model.config.num_heads)]
            done[layer] = np.round(found, 5).tolist()
            log.add({"part": part, "layer": layer, "change": done[layer]})
    return np.array([done[layer] for layer in layers])


class Log:
    """Lines of JSON in a file, or in memory alone."""

    def __init__(self, path=None):
        self.path = path
        there = path is not None and path.exists()
        self.lines = [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines()] if there else []

    def add(self, line):
        self.lines.append(line)
        print(line["part"], line.get("layer", ""), flush=True)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def decoded(name, known, log, tiny):
    """Return what each head of the decoder is worth on one kind of text: the rise of the loss, and of each row."""
    text = Decoding(known, *PARTS[name](known, tiny))
    changes = all_heads(name, text.change, known.model, log)
    return {
        "tokens": int(text.rows[:, text.start :].numel()),
        "whole": round(float(text.whole.mean()), 4),
        "effects": table(changes.mean(-1), 5),
        "of_rows": [table(changes[..., row], 5) for row in range(len(text.rows))],
    }


def sentences(name, known, log, tiny):
    """Return what each head of the encoder is worth: how far the vectors of sentences turn without it."""
    texts = Encoding(known, chosen_sentences(tiny))
    changes = all_heads(name, texts.turned, known.model, log)
    return {"sentences": len(texts.rows), "examples": chosen_sentences(tiny)[:3], "effects": table(changes.mean(-1), 5)}


def pairs(name, known, log, tiny):
    """Return the rise of the loss on copies without two heads at once, of the best induction heads."""
    heads = [tuple(head) for head in result("generation")["copying"]["top_heads"][: 2 if tiny else PAIRED]]
    text = Decoding(known, *copying(known, tiny))
    alone = {head: float(text.change([head]).mean()) for head in heads}
    both = [
        {"heads": [a, b], "alone": [round(alone[a], 4), round(alone[b], 4)]}
        | {"both": round(float(text.change([a, b]).mean()), 4)}
        for a, b in itertools.combinations(heads, 2)
    ]
    return {"whole": round(float(text.whole.mean()), 4), "heads": heads, "pairs": both}


def twins(name, known, log, tiny):
    """Return the rise of the loss on the book without two heads of a layer: those whose outputs are most alike, others.

    Likeness is that of the capture `smollm2_similarity`, on another part of the book; the others are drawn.
    """
    alone, alike = np.array(result("redundancy")["book"]["effects"]), outputs_alike(known.config.num_heads)
    text, rng, found = Decoding(known, *book(known, tiny)), np.random.default_rng(0), []
    done = {line["layer"]: line["pairs"] for line in log.lines if line["part"] == name}
    couples = list(itertools.combinations(range(known.config.num_heads), 2))
    for layer in range(known.config.num_layers)[-1 if tiny else 0 :]:
        order = sorted(couples, key=lambda couple: -alike[layer][couple])
        rest = rng.permutation(len(couples) - TWINS)[:TWINS] + TWINS
        if layer not in done:
            done[layer] = []
            for place in (*range(TWINS), *map(int, rest)):
                heads = [(layer, head) for head in order[place]]
                told = {
                    "heads": heads,
                    "most_alike": place < TWINS,
                    "alike": round(float(alike[layer][order[place]]), 3),
                }
                told |= {"alone": [float(alone[head]) for head in heads]}
                done[layer].append(told | {"both": round(float(text.change(heads).mean()), 5)})
            log.add({"part": name, "layer": layer, "pairs": done[layer]})
        found += done[layer]
    return {"whole": round(float(text.whole.mean()), 4), "pairs": found}


def outputs_alike(num_heads):
    """Return how alike the outputs of the heads of each layer are: (layers, heads, heads)."""
    triangle = capture("smollm2_similarity")["outputs"] / 255
    count = int((1 + (1 + 8 * len(triangle)) ** 0.5) / 2)
    pairs = np.zeros((count, count))
    pairs[np.triu_indices(count, 1)] = triangle
    places = np.arange(count).reshape(-1, num_heads)
    return pairs[places[:, :, None], places[:, None]]


PARTS = {"book": book, "copying": copying}
KINDS = dict.fromkeys(PARTS, ("smollm2", decoded))
KINDS |= {"sentences": ("minilm", sentences), "pairs": ("smollm2", pairs), "twins": ("smollm2", twins)}


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"which: {', '.join(KINDS)}; all by default")
    parser.add_argument("--tiny", action="store_true", help="all parts on less, nothing written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(None if given.tiny else LOG)
    known = {name: pretrained(name) for name in ("smollm2", "minilm")}
    for part in given.parts or KINDS:
        model, measure = KINDS[part]
        found = measure(part, known[model], log, given.tiny)
        if not given.tiny:
            setting = {name: model.describe() for name, model in known.items()} | {"chapters": CHAPTERS}
            save(
                "redundancy", {"setting": setting, **kept(), part: found}, note="effects: (layers, heads); lost without"
            )


def kept():
    """Return the parts that the result file has."""
    try:
        return {part: x for part, x in result("redundancy").items() if part in KINDS}
    except ValueError:
        return {}


if __name__ == "__main__":
    main()
