"""What does reading both ways buy, and does BERT's training show at this size?   python benchmarks/bert.py

A gap: small models read stretches of 16 characters of Moby Dick. Two are trained as masked language models (Devlin et
al. 2019), with the 80/10/10 rule and with every chosen character hidden; one of the same size, weights and batches,
under a causal mask, guesses the next character; both of these also for three times the steps. Then each fills a gap
in held-out chapters, at every place of the stretch; so do counts of one character, of pairs and of both neighbours.
Pairs: the same form on byte-pair tokens is also asked if the second piece follows the first or is from elsewhere in
the book; and cosines of the real MiniLM are asked which of two sentences is the next (python -m mha.data fetch
minilm).

Weights begin larger than BERT's, as the models are narrow, and positions as sinusoids; what a masked model does from
BERT's own start is trained apart. The learning rate of both ways of reading is tuned on the same grid, by the training
loss of shorter runs. Small is meant: two layers, 64 wide; what is measured here is about this size.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 10 minutes on
one core. The result file is a summary of the log. `--tiny` trains each model for a few steps and writes nothing.
"""

import argparse
import itertools
import re
import time
from pathlib import Path

import bert_tasks as tasks
import torch
from provenance import save
from runs import keep, kept, known
from torch.nn import functional as F

from mha.data import pretrained
from mha.models.train import train

STEPS, LONG_STEPS, TUNING_STEPS, PAIR_STEPS, WARM_UP, EVERY = 600, 1800, 300, 500, 50, 50
RATES, SEEDS, COSINES = (1.5e-3, 3e-3, 6e-3, 1.2e-2), (0, 1, 2), 200
RULES = {"both": {}, "hidden": {"hidden": 1.0, "random": 0.0}, "left": None}  # None: causal, the next character
RUNS = {name: (name, STEPS) for name in RULES} | {f"{name}_long": (name, LONG_STEPS) for name in ("both", "left")}
LOG = Path(__file__).parent / "logs/bert.jsonl"


@torch.inference_mode()
def cosines():
    """Return how often the real encoder finds a sentence nearer to the next one than to one from elsewhere."""
    sentences = [re.split(r"(?<=[.!?])\s+", text) for text in tasks.chapters()[1]]
    follow = [
        (a, b) for part in sentences for a, b in itertools.pairwise(part) if min(map(len, (a.split(), b.split()))) >= 5
    ]
    generator, model = torch.Generator().manual_seed(0), pretrained("minilm")
    chosen = torch.randperm(len(follow), generator=generator)[:COSINES].tolist()
    vectors = [[_vector(model, sentence) for sentence in follow[n]] for n in chosen]
    first, second = (torch.stack(side) for side in zip(*vectors, strict=True))
    near, far = (first * second).sum(-1), (first * second.roll(1, 0)).sum(-1)
    return {"right": round(float((near > far).double().mean()), 4), "next": round(float(near.mean()), 4),
            "elsewhere": round(float(far.mean()), 4), "pairs": len(chosen)}  # fmt: skip


def _vector(model, sentence):
    return F.normalize(model.model(model.encode(sentence)[:, :128])[0].mean(0), dim=0)


def trained(model, seed, batch, loss, rate, steps):
    """Train the model; return the mean training loss of each stretch of steps. Seeds differ in batches too."""
    rows = train(model, lambda step: batch(step + 10**6 * seed), loss, steps=steps, rate=rate, warmup=WARM_UP,
                 every=EVERY, progress=False)  # fmt: skip
    return [round(x, 4) for x in rows["loss"]]


def tuned(kind, log, data):
    """Return the rate whose short run ends with the lowest training loss; no held-out text is looked at."""
    ids, _, vocab_size = data
    found = {}
    for rate in RATES:
        key = {"kind": "tuning", "rule": kind, "rate": rate}
        if (line := known(log, **key)) is None:
            model = tasks.model_of(ids, vocab_size, tasks.LENGTH, seed=0)
            curve = trained(model, 0, *tasks.gapped(ids, vocab_size, RULES[kind]), rate, TUNING_STEPS)
            line = keep(log, key | {"loss": curve[-1]})
        found[rate] = line["loss"]
    return min(found, key=found.get)


def run_gap(name, seed, log, data):
    """Train one model to fill gaps in, or to guess the next character, and let it fill the gaps of held-out text."""
    key = {"kind": "gap", "run": name, "seed": seed}
    if known(log, **key):
        return
    (ids, held_out, vocab_size), (rule, steps) = data, RUNS[name]
    rate = tuned("left" if rule == "left" else "both", log, data)
    model = tasks.model_of(ids, vocab_size, tasks.LENGTH, seed)
    started = time.process_time()
    curve = trained(model, seed, *tasks.gapped(ids, vocab_size, RULES[rule]), rate, steps)
    seconds = round(time.process_time() - started)
    loss, right = tasks.gap_losses(model, held_out, causal=rule == "left")
    by_place = {"loss": [round(float(x), 4) for x in loss], "right": [round(float(x), 4) for x in right]}
    about = {"rate": rate, "parameters": sum(p.numel() for p in model.parameters()), "seconds": seconds}
    keep(log, key | about | {"curve": curve} | by_place)


def run_start(seed, log, data):
    """Train one masked model from weights drawn as BERT draws them."""
    key = {"kind": "start", "seed": seed}
    if known(log, **key):
        return
    ids, held_out, vocab_size = data
    rate = tuned("both", log, data)
    model = tasks.model_of(ids, vocab_size, tasks.LENGTH, seed, as_bert=True)
    curve = trained(model, seed, *tasks.gapped(ids, vocab_size, RULES["both"]), rate, STEPS)
    loss = float(tasks.gap_losses(model, held_out, causal=False)[0][tasks.LENGTH // 2])
    keep(log, key | {"rate": rate, "curve": curve, "loss": round(loss, 4)})


def run_pairs(seed, log, data):
    """Train one model on both objectives of BERT."""
    key = {"kind": "pairs", "seed": seed}
    if known(log, **key):
        return
    texts, held_out, vocab_size = data
    ids = torch.cat(texts)
    model = tasks.model_of(ids, vocab_size, 2 * tasks.PIECE + 3, seed)
    curve = trained(model, seed, *tasks.paired(texts, vocab_size), RATES[1], PAIR_STEPS)
    unigram = float(-tasks.frequencies(ids, vocab_size).log()[torch.cat(held_out)].mean())
    keep(
        log,
        key | {"rate": RATES[1], "curve": curve, "unigram": round(unigram, 4)} | tasks.pair_accuracy(model, held_out),
    )


def summary(lines):
    """Return what is read of a log: the mean over seeds, the lowest and the highest."""

    def of(**key):
        return [line for line in lines if key.items() <= line.items()]

    def means(runs, name):
        return [over_seeds(values)["mean"] for values in zip(*(run[name] for run in runs), strict=True)]

    gap = {}
    for name, (rule, _) in RUNS.items():
        runs, middle = of(kind="gap", run=name), tasks.LENGTH // 2 - (rule == "left")
        gap[name] = {key: over_seeds([run[key][middle] for run in runs]) for key in ("loss", "right")}
        gap[name] |= {"by_place": means(runs, "loss"), "curve": means(runs, "curve")}
        gap[name] |= {key: runs[0][key] for key in ("rate", "parameters")}
    runs = of(kind="start")
    gap["as_bert"] = {"loss": over_seeds([run["loss"] for run in runs]), "curve": means(runs, "curve")}
    keys = "right", "masked_loss", "unigram"
    pairs = {key: over_seeds([run[key] for run in of(kind="pairs")]) for key in keys}
    return {"gap": gap, "pairs": pairs} | {kind: of(kind=kind)[0]["found"] for kind in ("counts", "cosines")}


def over_seeds(values):
    """Return the mean, the lowest and the highest."""
    return {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}


def tiny():
    """Train each model for a few steps."""
    ids, held_out, vocab_size = tasks.characters()
    for kind, rule in RULES.items():
        model = tasks.model_of(ids, vocab_size, tasks.LENGTH, seed=0)
        curve = trained(model, 0, *tasks.gapped(ids, vocab_size, rule), RATES[0], 2)
        print(kind, curve, tasks.gap_losses(model, held_out[: 4 * tasks.LENGTH], causal=rule is None)[0].tolist())
    texts, held_out, vocab_size = tasks.pair_data()
    model = tasks.model_of(torch.cat(texts), vocab_size, 2 * tasks.PIECE + 3, seed=0)
    print(trained(model, 0, *tasks.paired(texts, vocab_size), RATES[0], 2), tasks.pair_accuracy(model, held_out))


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    torch.set_num_threads(1)
    if options.parse_args().tiny:
        return tiny()
    data = tasks.characters()
    if not known(LOG, kind="counts"):
        keep(LOG, {"kind": "counts", "found": tasks.counted(*data)})
    for seed in SEEDS:
        for name in RUNS:
            run_gap(name, seed, LOG, data)
        run_start(seed, LOG, data)
    data = tasks.pair_data()
    for seed in SEEDS:
        run_pairs(seed, LOG, data)
    if not known(LOG, kind="cosines"):
        keep(LOG, {"kind": "cosines", "found": cosines()})
    setting = {
        "d_model": tasks.D_MODEL, "heads": tasks.HEADS, "layers": tasks.LAYERS, "length": tasks.LENGTH,
        "batch": tasks.BATCH, "steps": STEPS, "long_steps": LONG_STEPS, "tuning_steps": TUNING_STEPS, "rates": RATES,
        "seeds": SEEDS, "windows": tasks.WINDOWS, "every": EVERY, "piece": tasks.PIECE, "vocabulary": tasks.VOCABULARY,
        "pair_steps": PAIR_STEPS, "pairs": tasks.PAIRS,
    }  # fmt: skip
    note = "held-out loss in nats and share of right guesses, in the middle of a stretch; mean, low and high of seeds"
    save("bert", {"setting": setting, **summary(kept(LOG))}, note=note)


if __name__ == "__main__":
    main()
