"""Do states help attention, or attention states?   python benchmarks/hybrid.py

Four small decoders of two blocks with equal numbers of weights, to 2 %: attention alone, with ALiBi's slopes, which
hold beyond the trained length; the same with each embedding mixed with the three before it, as the convolution of a
Mamba-2 does; states alone; and a state below attention, which has no positions then. Two tasks, the same batches and
steps for all, a rate that shorter runs have tuned for each on the same grid.

Recall, after Arora et al. (2024): some pairs of a key and its value stand scattered in noise, then come eight
questions, a key each, whose values are to be said. Trained at 32 tokens with 4 pairs; tested at up to 8 times the
length, and with up to 4 times the pairs.
Text: characters of Moby Dick, trained in stretches of 64, tested in windows of up to 512 of held-out text.
And what a further token costs when so many stand before it: seconds, and numbers that are kept.

Each run adds a line to the log, and what is there is not run again. Without a log the whole takes about ten minutes on
one core. `--tiny` trains everything for a few steps and writes nothing; `--decode` measures the steps anew.
"""

import argparse
import json
import statistics
import time
from itertools import product
from pathlib import Path

import torch
from character_model import losses, text
from provenance import RESULTS, commit, save
from torch.nn import functional as F

from mha.models import Hybrid, HybridConfig
from mha.models.start import draw_weights
from mha.models.train import train
from mha.nn import causal_convolution

MODELS = {
    "hybrid": {"pattern": "MA", "d_mlp": 83},
    "attention": {"pattern": "AA", "position": "alibi", "d_mlp": 128},
    "attention, convolved": {"pattern": "AA", "position": "alibi", "d_mlp": 128},
    "states": {"pattern": "MM", "d_mlp": 38},
}
SIZES = {"d_model": 64, "num_heads": 4, "num_state_heads": 4, "d_state": 16}
STEPS, TUNING_STEPS, RATES, SEEDS = (
    {"recall": 600, "text": 300},
    {"recall": 200, "text": 100},
    (3e-3, 1e-2, 3e-2),
    (0, 1, 2),
)
LENGTH, BATCH = {"recall": 32, "text": 64}, {"recall": 32, "text": 16}
TIMES, PAIRS, TESTED, KEYS, VALUES, NOISE, QUESTIONS = (1, 2, 4, 8), (4, 8, 16), 128, 16, 8, 8, 8
KEPT, TIMED = (256, 1024, 4096), 32
LOG = Path(__file__).parent / "logs/hybrid.jsonl"


def recall_batch(generator, batch, length, pairs):
    """Return tokens (batch, length), the places of the questions (batch, questions), and the answers."""
    keys = torch.rand(batch, KEYS, generator=generator).argsort(-1)[:, :pairs]
    values = KEYS + torch.randint(VALUES, (batch, pairs), generator=generator)
    tokens = KEYS + VALUES + torch.randint(NOISE, (batch, length), generator=generator)
    slots = torch.rand(batch, length // 2 - QUESTIONS, generator=generator).argsort(-1)[:, :pairs]
    tokens.scatter_(1, 2 * slots, keys).scatter_(1, 2 * slots + 1, values)
    order = torch.randint(pairs, (batch, QUESTIONS), generator=generator)
    asked, answers = keys.gather(1, order), values.gather(1, order)
    places = torch.arange(length - 2 * QUESTIONS, length, 2)
    tokens[:, places], tokens[:, places + 1] = asked, answers
    return tokens, places.expand(batch, -1), answers


def answered(model, tokens, places):
    """Return the logits at the questions: (batch, pairs, vocabulary)."""
    logits = model(tokens)
    return logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))


def recall_loss(model, batch):
    tokens, places, answers = batch
    return F.cross_entropy(answered(model, tokens, places).flatten(0, 1), answers.flatten())


@torch.inference_mode()
def recall_scores(model):
    """Return the share of right answers by length at 8 pairs, and by number of pairs at the greatest length."""

    def right(length, pairs):
        tokens, places, answers = recall_batch(torch.Generator().manual_seed(1), TESTED, length, pairs)
        parts = zip(tokens.split(32), places.split(32), answers.split(32), strict=True)
        hits = [(answered(model, x, at).argmax(-1) == y).float().mean() for x, at, y in parts]
        return round(float(torch.stack(hits).mean()), 4)

    lengths = tested_lengths("recall")
    by_length = {str(n): right(n, PAIRS[0]) for n in lengths}
    return {"length": by_length, "pairs": {str(p): right(lengths[-1], p) for p in PAIRS}}


def tested_lengths(kind):
    """Return the trained length and its multiples."""
    return [times * LENGTH[kind] for times in TIMES]


def text_loss(model, rows):
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


class Recall:
    """The task of pairs in noise."""

    vocabulary, loss, scores = KEYS + VALUES + NOISE, staticmethod(recall_loss), staticmethod(recall_scores)

    def batch(self, seed, step):
        generator = torch.Generator().manual_seed(1000 + seed * 100_000 + step)
        return recall_batch(generator, BATCH["recall"], LENGTH["recall"], PAIRS[0])


class Text:
    """The characters of a book."""

    loss = staticmethod(text_loss)

    def __init__(self):
        self.ids, self.held_out, self.vocabulary = text()

    def batch(self, seed, step):
        generator = torch.Generator().manual_seed(seed * 100_000 + step)
        starts = torch.randint(len(self.ids) - LENGTH["text"], (BATCH["text"],), generator=generator)
        return self.ids[starts[:, None] + torch.arange(LENGTH["text"] + 1)]

    def scores(self, model):
        read = lambda x, mask: model(x)  # noqa: E731
        return {
            "length": {str(n): round(float(losses(read, self.held_out, n).mean()), 4) for n in tested_lengths("text")}
        }


TASKS = {"recall": Recall, "text": Text}


class Convolved(torch.nn.Embedding):
    """Embeddings, to each of which a short convolution adds those before it."""

    def __init__(self, vocabulary, width):
        super().__init__(vocabulary, width)
        self.mix = torch.nn.Parameter(torch.zeros(width, 4))

    def forward(self, tokens):
        x = super().forward(tokens)
        return x + causal_convolution(x.mT, self.mix)[0].mT


def made(name, vocabulary, seed=0):
    """Return a model with the weights of a seed, larger than those of a GPT, which is wider."""
    torch.manual_seed(seed)
    model = Hybrid(HybridConfig(vocabulary, **SIZES, **MODELS[name]))
    if name == "attention, convolved":
        model.embed = Convolved(vocabulary, SIZES["d_model"])
    draw_weights(model, std=SIZES["d_model"] ** -0.5)
    return model


def trained(name, task, seed, rate, steps):
    """Return the trained model, and the mean training loss of its last steps."""
    model = made(name, task.vocabulary, seed)
    options = {"warmup": min(50, steps // 2), "every": max(1, steps // 10), "seed": seed, "progress": False}
    history = train(model, lambda step: task.batch(seed, step), task.loss, steps=steps, rate=rate, **options)
    return model, round(history["loss"][-1], 4)


def kept(log):
    """Return the lines of the log."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def keep(log, line):
    """Add a line to the log, and print it."""
    line |= {"commit": commit()}
    print(line, flush=True)
    log.parent.mkdir(exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def tuned(name, kind, task, log):
    """Return the rate whose short run ends with the lowest training loss; nothing held out is looked at."""
    about = {"kind": "tuning", "task": kind, "model": name}
    found = {line["rate"]: line["loss"] for line in kept(log) if about.items() <= line.items()}
    for rate in RATES:
        if rate not in found:
            _, found[rate] = trained(name, task, 0, rate, TUNING_STEPS[kind])
            keep(log, about | {"rate": rate, "loss": found[rate]})
    return min(found, key=found.get)


def run(name, kind, task, seed, log):
    """Train and measure one model on one task."""
    rate, started = tuned(name, kind, task, log), time.process_time()
    model, loss = trained(name, task, seed, rate, STEPS[kind])
    about = {"kind": "run", "task": kind, "model": name, "seed": seed, "rate": rate, "loss": loss}
    keep(log, about | {"seconds": round(time.process_time() - started)} | task.scores(model))


@torch.inference_mode()
def decoding(lengths=KEPT, timed=TIMED):
    """Return, for each model and number of tokens before, milliseconds a further token and numbers kept."""
    found = {}
    for name in ("attention", "states", "hybrid"):
        model, found[name] = made(name, 96).eval(), {}
        for n in lengths:
            tokens = torch.randint(96, (1, n), generator=torch.Generator().manual_seed(n))
            _, caches = model.step(tokens, model.caches(), last=True)
            took, now = [], tokens[:, -1:]
            for _ in range(timed):
                started = time.process_time()
                _, caches = model.step(now, caches)
                took.append(1000 * (time.process_time() - started))
            found[name][str(n)] = {"ms": round(statistics.median(took), 3), "numbers": numbers(caches)}
    return found


def numbers(caches):
    """Return how many numbers the caches of a sequence hold."""
    return sum(x.numel() for cache in caches for x in cache.rows)


def summary(lines):
    """Return what is read of a log: for each task and model the mean over its seeds, the lowest and the highest."""
    runs = [line for line in lines if line["kind"] == "run"]
    told = {}
    for kind in TASKS:
        table = told[kind] = {}
        for name in MODELS:
            own = [line for line in runs if (line["task"], line["model"]) == (kind, name)]
            if own:
                table[name] = {"rate": own[0]["rate"], "training_loss": band([line["loss"] for line in own])}
                for axis in ("length", "pairs"):
                    if axis in own[0]:
                        table[name][axis] = {n: band([line[axis][n] for line in own]) for n in own[0][axis]}
    return told


def band(values):
    return {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}


def write(log, decode):
    """Save the summary of the log and what decoding takes."""
    setting = SIZES | {
        "models": MODELS, "length": LENGTH, "batch": BATCH, "steps": STEPS, "tuning_steps": TUNING_STEPS,
        "rates": RATES, "seeds": SEEDS, "keys": KEYS, "values": VALUES, "noise": NOISE, "questions": QUESTIONS,
        "tested": TESTED,
    }  # fmt: skip
    parameters = {
        kind: {name: sum(p.numel() for p in made(name, size).parameters()) for name in MODELS}
        for kind, size in (("recall", Recall.vocabulary), ("text", text()[2]))
    }
    note = "recall: share of right answers (chance 1/8); text: nats a character; one thread, float32"
    save("hybrid", {"setting": setting, "parameters": parameters, **summary(kept(log)), "decode": decode}, note=note)


def tiny():
    """Train and measure every model on every task for a few steps."""
    for kind, task in ((kind, make()) for kind, make in TASKS.items()):
        for name in MODELS:
            model, loss = trained(name, task, 0, RATES[0], 3)
            print(kind, name, loss, task.scores(model))
    print(decoding((16,), 3))


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    options.add_argument("--decode", action="store_true", help="measure the steps of decoding alone")
    options.add_argument("tasks", nargs="*", default=list(TASKS), help="which tasks to train, all by default")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.tiny:
        return tiny()
    known = RESULTS / "hybrid.json"
    before = json.loads(known.read_text("utf-8")).get("decode") if known.exists() else None
    decode = decoding() if given.decode or before is None else before
    tasks = {} if given.decode else {kind: TASKS[kind]() for kind in given.tasks}
    for seed in SEEDS:
        for (kind, task), name in product(tasks.items(), MODELS):
            about = {"kind": "run", "task": kind, "model": name, "seed": seed}
            if not any(about.items() <= line.items() for line in kept(LOG)):
                run(name, kind, task, seed, LOG)
        write(LOG, decode)


if __name__ == "__main__":
    main()
