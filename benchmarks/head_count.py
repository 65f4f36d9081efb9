"""Do more heads help, the width being fixed?   python benchmarks/head_count.py

The letters of English words into their phonemes by the Transformer of `translation.py`, 64 wide, with 1 to 16 heads:
the same number of parameters, the same batches. The highest learning rate of each is tuned on one grid by whole runs of
one seed and validation data, so that no number of heads is favoured. Small is meant: two layers a side, 400 steps of 32
words; the result is about this size and this task.

Each run adds a line to the log, and what is there is not run again; without a log, about 8 minutes of one free core.
`--tiny` trains for a few steps and writes nothing.
"""

import argparse
import statistics
from pathlib import Path

import torch
from provenance import save
from runs import keep, known
from translation_tasks import TASKS

from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.models.train import train
from mha.models.translation import translation_loss

HEADS, SEEDS, RATES = (1, 2, 4, 8, 16), range(3), (1e-3, 3e-3, 1e-2)
D_MODEL, LAYERS, D_MLP, STEPS, WARMUP = 64, 2, 256, 400, 60
LOG = Path(__file__).parent / "logs/head_count.jsonl"


def trained(task, heads, seed, rate, steps):
    """Return the trained model and its loss on validation data, in nats per phoneme."""
    torch.manual_seed(seed)
    vocab = (tokenizer.vocab_size for tokenizer in task.tokenizers)
    sizes = {"d_model": D_MODEL, "num_heads": heads, "num_layers": LAYERS, "d_mlp": D_MLP, "max_length": 64}
    model = Seq2Seq(Seq2SeqConfig(*vocab, **sizes))
    train(
        model, task.batches(seed), translation_loss, steps=steps, rate=rate, warmup=min(WARMUP, steps - 1), seed=seed,
        every=steps, progress=False,
    )  # fmt: skip
    return model, round(task.held_out(model), 4)


def run(task, heads, seed, rate):
    """Return the line of the log about one training, which is run if there is none."""
    about = {"kind": "run", "heads": heads, "seed": seed, "rate": rate}
    line = known(LOG, **about)
    if line is not None:
        return line
    model, loss = trained(task, heads, seed, rate, STEPS)
    scores = {name: round(value, 4) for name, value in task.scores(model).items()}
    parameters = sum(p.numel() for p in model.parameters())
    return keep(LOG, about | {"parameters": parameters, "loss": loss, **scores})


def tuned(task, heads):
    """Return the rate that does best on validation data, by the first seed."""
    return min(RATES, key=lambda rate: run(task, heads, SEEDS[0], rate)["loss"])


def summary(lines):
    """Return for each number of heads the mean and the band of the scores over the seeds."""
    table = []
    for heads in HEADS:
        of = [line for line in lines if line["heads"] == heads]
        row = {"heads": heads, "d_head": D_MODEL // heads, "rate": of[0]["rate"], "parameters": of[0]["parameters"]}
        for name in ("loss", "phoneme_error", "word_error"):
            values = [line[name] for line in of]
            row[name] = {"mean": round(statistics.mean(values), 4), "low": min(values), "high": max(values)}
        table.append(row)
    return table


def by_rate(lines):
    """Return the phoneme error of the first seed for each rate, by the number of heads."""
    return {rate: {line["heads"]: line["phoneme_error"] for line in lines if line["rate"] == rate} for rate in RATES}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    task = TASKS["phonemes"]
    if given.tiny:
        print({heads: trained(task, heads, 0, RATES[0], 2)[1] for heads in HEADS})
        return
    rates = {heads: tuned(task, heads) for heads in HEADS}
    lines = [run(task, heads, seed, rates[heads]) for seed in SEEDS for heads in HEADS]
    setting = {"d_model": D_MODEL, "layers": LAYERS, "d_mlp": D_MLP, "steps": STEPS, "batch": task.batch}
    setting |= {"rates": RATES, "seeds": len(SEEDS), "words": lines[0]["items"], "split": "test"}
    grid = [run(task, heads, SEEDS[0], rate) for rate in RATES for heads in HEADS]
    found = {"summary": summary(lines), "by_rate": by_rate(grid), "runs": lines}
    save("head_count", {"setting": setting, **found}, note="loss: nats per phoneme")


if __name__ == "__main__":
    main()
