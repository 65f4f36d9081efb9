"""How well does a small GPT read Moby Dick, by characters and by byte pairs?   python benchmarks/gpt.py

The same blocks, once behind characters and once behind 1,024 tokens of byte-pair encoding, three seeds each, with as
many tokens a step and as many steps; the learning rate of each is the better of two by the first seed's loss on text
for validation. Then one longer run with the better tokenization, which becomes the checkpoint `moby_dick_gpt`.
Losses are told in nats and bits a *character*: a token of byte pairs stands for several, so losses a token do not
compare. Small is meant: four layers, 128 wide, minutes of training.

A run that was broken off goes on from `build/gpt`; each that is complete adds a line to the log and is not run again.
Without both, the whole takes about 10 minutes on one core. `--tiny` trains for a few steps and writes nothing.
"""

import argparse
import collections
import math
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from provenance import save
from runs import keep, known

from mha.data import load
from mha.data.checkpoints import save_checkpoint
from mha.data.tokenizer import CharacterTokenizer, train_bpe
from mha.models.gpt import GPT, GPTConfig
from mha.models.train import train

VOCABULARY, LENGTH, BATCH, STEPS, LONG = 1024, 128, 16, 120, 1000
RATES, SEEDS = (1e-3, 3e-3), (0, 1, 2)
HELD_OUT = 40_000  # characters; as many before them choose the learning rate
SIZES = GPTConfig(vocab_size=0, max_length=LENGTH, num_layers=4, d_model=128, num_heads=4, d_mlp=512, dropout=0.0)
LOG, FOLDER = Path(__file__).parent / "logs/gpt.jsonl", Path("build/gpt")
CHECKPOINT = Path(__file__).parent.parent / "mha/data/checkpoints/moby_dick_gpt.json"


class Reading:
    """The book behind one tokenization: what is trained on, what chooses, and what is measured on."""

    def __init__(self, name):
        book = "\n".join(load("moby_dick")["text"])
        cut = len(book) * 9 // 10
        self.name = name
        self.tokenizer = CharacterTokenizer([book]) if name == "characters" else train_bpe([book[:cut]], VOCABULARY)
        parts = book[:cut], book[cut : cut + HELD_OUT], book[cut + HELD_OUT : cut + 2 * HELD_OUT]
        self.train, self.validation, self.test = (torch.tensor(self.tokenizer.encode(part)) for part in parts)
        self.config = replace(SIZES, vocab_size=self.tokenizer.vocab_size)

    def batch(self, step):
        """Return the rows of a step, the same for every seed."""
        starts = torch.randint(len(self.train) - LENGTH, (BATCH,), generator=torch.Generator().manual_seed(step))
        return self.train[starts[:, None] + torch.arange(LENGTH + 1)]

    def nats_per_character(self, model, tokens):
        """Return the loss of the second half of each window, which has the first half to go by.

        Windows begin half a window apart, so that all tokens but those of the first half are measured, each once.
        """
        rows = tokens.unfold(0, LENGTH + 1, LENGTH // 2)
        targets = rows[:, 1 + LENGTH // 2 :]
        with torch.inference_mode():
            logits = torch.cat([model(part[:, :-1])[:, LENGTH // 2 :] for part in rows.split(16)])
            total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        return float(total) / len(self.tokenizer.decode(targets.flatten().tolist()))


def loss_of(model, rows):
    """Return the mean loss of all next tokens: one pass asks the question at every position."""
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def run(reading, rate, seed, steps):
    """Train one model and return it with the line that goes into the log."""
    torch.manual_seed(seed)
    model, start = GPT(reading.config), time.process_time()
    told = lambda model: {"validation": reading.nats_per_character(model, reading.validation)}  # noqa: E731
    folder = FOLDER / f"{reading.name}-{rate}-{seed}-{steps}"
    history = train(
        model, reading.batch, loss_of, steps=steps, rate=rate, warmup=min(50, steps // 2), weight_decay=0.1, seed=seed,
        evaluate=told, every=min(steps, 60), folder=folder, progress=False,
    )  # fmt: skip
    line = {
        "tokens": reading.name, "rate": rate, "seed": seed, "steps": steps,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(time.process_time() - start, 1),
        "loss": round(history[-1]["loss"], 4),
        "validation": round(history[-1]["validation"], 4),
        "test": round(reading.nats_per_character(model, reading.test), 4),
        "curve": [[row["step"], round(row["validation"], 3)] for row in history],
    }  # fmt: skip
    return model, line


def logged(reading, rate, seed, steps):
    """Return the line of this run, from the log or by training."""
    key = {"tokens": reading.name, "rate": rate, "seed": seed, "steps": steps}
    if line := known(LOG, **key):
        return line
    _, line = run(reading, rate, seed, steps)
    return keep(LOG, line)


def by_frequency():
    """Return nats a character of guessing by how often a character stands in the training text."""
    book = "\n".join(load("moby_dick")["text"])
    cut = len(book) * 9 // 10
    counts, test = collections.Counter(book[:cut]), book[cut + HELD_OUT : cut + 2 * HELD_OUT]
    total = sum(counts.values()) + len(set(book))
    return -sum(math.log((counts[c] + 1) / total) for c in test) / len(test)


def band(values):
    return {"low": min(values), "high": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a few steps, nothing written")
    torch.set_num_threads(1)
    readings = [Reading("characters"), Reading("byte pairs")]
    if parser.parse_args().tiny:
        return tiny(readings)
    table = {}
    for reading in readings:
        tuning = {rate: logged(reading, rate, SEEDS[0], STEPS)["validation"] for rate in RATES}
        rate = min(tuning, key=tuning.get)
        lines = [logged(reading, rate, seed, STEPS) for seed in SEEDS]
        tests = band([line["test"] for line in lines])
        table[reading.name] = {
            "rate": rate,
            "tuning": tuning,
            "nats_per_character": tests,
            "parameters": lines[0]["parameters"],
        }
    better = min(readings, key=lambda reading: table[reading.name]["nats_per_character"]["high"])
    long = logged(better, table[better.name]["rate"], SEEDS[0], LONG)
    if not CHECKPOINT.exists():
        model, _ = run(better, long["rate"], SEEDS[0], LONG)  # goes on from the folder, or trains again
        about = asdict(better.config) | {"tokenizer": better.tokenizer.tokenizer.to_str()}
        save_checkpoint("moby_dick_gpt", about, model)
    setting = {**asdict(SIZES), "batch": BATCH, "steps": STEPS, "long_steps": LONG, "rates": RATES, "seeds": SEEDS}
    characters = {
        reading.name: len(reading.tokenizer.decode(reading.test.tolist())) / len(reading.test) for reading in readings
    }
    save(
        "gpt",
        {
            "setting": setting,
            "characters_a_token": {name: round(value, 2) for name, value in characters.items()},
            "by_frequency": round(by_frequency(), 4),
            "short": table,
            "long": long,
        },
        note="held-out loss in nats a character, each token with at least 64 tokens before it in its window of 128",
    )


def tiny(readings):
    for reading in readings:
        start = time.process_time()
        torch.manual_seed(0)
        model = GPT(reading.config)
        train(model, reading.batch, loss_of, steps=3, rate=1e-3, warmup=1, progress=False)
        print(reading.name, f"{reading.nats_per_character(model, reading.test):.2f} nats a character before training")
        print(f"{time.process_time() - start:.1f} seconds for three steps and a measurement")


if __name__ == "__main__":
    main()
