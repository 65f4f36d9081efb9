"""Does attention find which words belong together?   python benchmarks/alignment_error.py

Short verses of the Greek New Testament (lemmas) and of an English translation, with word alignments made by hand. Every
method sees the verses alone and is scored by its alignment error rate (Och and Ney 2003; all links are sure ones): the
diagonal, IBM Model 1 both ways, and attention of models that translate Greek into English, teacher forced: a small
Transformer, each head of each layer, their means, and a recurrent model with additive attention (Bahdanau et al. 2015).

An English word is linked to the Greek word with the largest weight, twice: in the step that writes the English word, as
Bahdanau et al. do, and in the step after it, which reads it. A tenth of the verses is held out: training stops where
their loss is lowest, and the head and the step of "chosen" are those with the fewest errors on them. Every score is on
the other verses. IBM Model 1 is fitted to all, as no method looks at a link.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 10 minutes of
one free core. `--tiny` trains for a few steps and writes nothing.
"""

import argparse
import math
import time
from pathlib import Path

import torch
from alignment_verses import ITERATIONS, Verses, by_ibm1, diagonal
from provenance import save
from runs import keep, kept

from mha.data import load
from mha.data.tokenizer import PAD
from mha.models.recurrent import Recurrent, RecurrentConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.models.train import train
from mha.models.translation import translation_loss

BATCH, EVERY, PATIENCE, TUNING_STEPS, RATES = 32, 50, 3, 100, (3e-3, 1e-2)
STEPS = {"transformer": 1500, "recurrent": 600}  # which take about as long
SEEDS = (0, 1, 2)
EXAMPLES = ("Matthew 6:11", "Mark 10:9")
STEP_OF = {"writes": 0, "reads": 1}  # the step whose weights align a word, counted from the one that writes it
LOG = Path(__file__).parent / "logs/alignment_error.jsonl"


def build(name, verses):
    """Return a model: a Transformer of one layer a side, or a recurrent one of the same width."""
    words = verses.source.vocab_size, verses.target.vocab_size
    if name == "transformer":
        return Seq2Seq(Seq2SeqConfig(*words, d_model=64, num_heads=4, num_layers=1, d_mlp=128, dropout=0.1))
    return Recurrent(RecurrentConfig(*words, d_embed=64, d_model=64, attention="additive", dropout=0.1))


def heads(model, source, target):
    """Return the weights (b, i, j) of each head, "layer.head", and their means: "layer.mean" and "all.mean"."""
    maps = model.attention_maps(source, target, source_keep=source != PAD)
    found = {f"{layer}.{head}": maps[layer, :, head] for layer in range(len(maps)) for head in range(maps.shape[2])}
    if len(found) > 1:
        found |= {f"{layer}.mean": maps[layer].mean(1) for layer in range(len(maps))}
        found["all.mean"] = maps.mean((0, 2))
    return found


def aligned(model, verses):
    """Return the links of every verse by each head and in each of two steps, under names such as "0.3 writes"."""
    found = {}
    for start in range(0, len(verses.numbers), 256):
        batch = range(start, min(start + 256, len(verses.numbers)))
        for head, weights in heads(model, *verses.tensors(batch)).items():
            for step, first in STEP_OF.items():
                rows = weights[:, first:].argmax(-1).tolist()
                words = [verses.english[verse] for verse in batch]
                links = [{(row[j], j) for j in range(len(english))} for row, english in zip(rows, words, strict=True)]
                found[f"{head} {step}"] = found.get(f"{head} {step}", []) + links
    return found


def trained(name, seed, rate, steps, verses):
    """Return the trained model, at its lowest loss on the held-out verses, and that loss."""
    torch.manual_seed(seed)
    model, held_out = build(name, verses), verses.tensors(verses.which(True))
    training = sorted(verses.which(False), key=lambda verse: len(verses.english[verse]))

    def batch(step):
        generator = torch.Generator().manual_seed(steps * seed + step)
        first = int(torch.randint(len(training) - BATCH + 1, (), generator=generator))
        return verses.tensors(training[first : first + BATCH])  # of about one length: little padding

    @torch.no_grad()
    def evaluate(model):
        return {"held_out": translation_loss(model, held_out).item()}

    options = {"evaluate": evaluate, "every": EVERY, "patience": PATIENCE, "progress": False}
    log = train(model, batch, translation_loss, steps=steps, rate=rate, seed=seed, **options)
    return model, min(row["held_out"] for row in log)


def tuned(name, verses):
    """Return the rate whose short run ends with the lowest loss on the held-out verses; no link is looked at."""
    found = {line["rate"]: line["held_out"] for line in kept(LOG) if (line["kind"], line["model"]) == ("tuning", name)}
    for rate in RATES:
        if rate not in found:
            found[rate] = round(trained(name, 0, rate, TUNING_STEPS, verses)[1], 4)
            keep(LOG, {"kind": "tuning", "model": name, "rate": rate, "held_out": found[rate]})
    return min(found, key=found.get)


def run(name, seed, verses):
    """Train a model, score what each of its heads aligns, and keep the weights of the chosen head on two verses."""
    rate, started = tuned(name, verses), time.process_time()
    model, held_out = trained(name, seed, rate, STEPS[name], verses)
    seconds, links = round(time.process_time() - started), aligned(model, verses)
    chosen = min(links, key=lambda head: verses.error(links[head], held_out=True))
    line = {"kind": "run", "model": name, "seed": seed, "rate": rate, "busy_seconds": seconds}
    line |= {"parameters": sum(p.numel() for p in model.parameters()), "held_out": round(held_out, 4)}
    line |= {"error": {head: verses.error(found) for head, found in links.items()}, "chosen": chosen}
    keep(LOG, line | {"weights": {verse: shown(model, chosen, verses, verse) for verse in EXAMPLES}})


def shown(model, chosen, verses, verse):
    """Return the weights of a head on a verse, a row for each English word."""
    head, step = chosen.split()
    source, target = verses.tensors([verses.names.index(verse)])
    rows = heads(model, source, target)[head][0, STEP_OF[step] :][: target.shape[1] - 2]
    return [[round(weight, 3) for weight in row] for row in rows.tolist()]


def summary(lines):
    """Return of each model the mean over its seeds, the lowest and the highest, and what seed 0 shows."""

    def over_seeds(values):
        return {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}

    table, runs = {}, [line for line in lines if line["kind"] == "run"]
    for name in STEPS:
        of_model = [run for run in runs if run["model"] == name]
        if of_model:
            about = {key: of_model[0][key] for key in ("rate", "parameters")} | {"seeds": len(of_model)}
            about |= {key: over_seeds([run[key] for run in of_model]) for key in ("held_out", "busy_seconds")}
            about |= {"chosen": [run["chosen"] for run in of_model]}
            about |= {"error_of_chosen": over_seeds([run["error"][run["chosen"]] for run in of_model])}
            about |= {
                "error": {head: over_seeds([run["error"][head] for run in of_model]) for head in of_model[0]["error"]}
            }
            table[name] = about | {"weights": of_model[0]["weights"]}
    return table


def examples(verses):
    """Return the words and the gold links of the verses that are drawn."""
    numbers = {verse: verses.names.index(verse) for verse in EXAMPLES}
    return {
        verse: {"greek": verses.greek[i], "english": verses.english[i], "gold": sorted(verses.gold[i])}
        for verse, i in numbers.items()
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("models", nargs="*", default=list(STEPS), help="which to train, all by default")
    options.add_argument("--minutes", type=float, default=math.inf, help="start no training after so many minutes")
    options.add_argument("--tiny", action="store_true", help="a few verses and steps, nothing written")
    given = options.parse_args()
    torch.set_num_threads(1)
    end = time.monotonic() + 60 * given.minutes
    rows = load("greek_english").to_list()
    verses = Verses(rows[::20] if given.tiny else rows)
    simple = {"diagonal": verses.error(diagonal(verses))} | by_ibm1(verses)
    if given.tiny:
        print(simple, *(aligned(trained(name, 0, 1e-3, 2, verses)[0], verses).keys() for name in given.models))
        return
    for seed in SEEDS:
        for name in given.models:
            done = {(line["model"], line.get("seed")) for line in kept(LOG)}
            if (name, seed) not in done and time.monotonic() < end:
                run(name, seed, verses)
    setting = {
        "verses": len(verses.gold), "held_out": sum(verses.held_out), "links": sum(map(len, verses.gold)),
        "batch": BATCH, "steps": STEPS, "tuning_steps": TUNING_STEPS, "rates": RATES, "iterations": ITERATIONS,
    }  # fmt: skip
    found = {"setting": setting, "error": simple, "models": summary(kept(LOG)), "examples": examples(verses)}
    save("alignment_error", found, note="alignment error rates on the verses that are not held out; 0 is perfect")


if __name__ == "__main__":
    main()
