"""Is a Transformer the better translator of two with as many parameters?   python benchmarks/translation.py

Two tasks: English names of emoji into Spanish, and the letters of English words into their phonemes. A Transformer and
a recurrent encoder-decoder with additive attention, as wide as it takes for as many parameters, see the same batches.
As the learning rate has no fixed end (Vaswani et al. 2017, section 5.3), one training can be read at any step and at
any time: the log has the scores on test data every few steps, with the seconds of the processor that training took so
far. The highest rate is tuned for each side on the same grid by short runs on validation data.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 15 minutes on
one free core. The Transformer of the seed that does best on validation data is kept as a checkpoint. `--tiny` trains
for a few steps and writes nothing.
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from provenance import save
from runs import keep, kept
from translation_tasks import TASKS

from mha.data.checkpoints import checkpoint, save_checkpoint
from mha.models.recurrent import Recurrent, RecurrentConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.models.train import train
from mha.models.translation import translation_loss

RATES, SEEDS, ROWS, WARMUP, DROPOUT = (1e-3, 3e-3, 1e-2), {"phonemes": 3, "emoji": 3}, 8, 100, 0.1
D_MODEL, HEADS, LAYERS, D_MLP, D_EMBED = 64, 4, 2, 256, 64
SEARCHES = ({"width": 1}, {"width": 4, "length_penalty": 0.0}, {"width": 4, "length_penalty": 1.0})
LOG = Path(__file__).parent / "logs/translation.jsonl"


def count(model):
    """Return the number of parameters."""
    return sum(p.numel() for p in model.parameters())


def transformer(task):
    """Return the Transformer of a task."""
    sizes = {"d_model": D_MODEL, "num_heads": HEADS, "num_layers": LAYERS, "d_mlp": D_MLP, "dropout": DROPOUT}
    vocab = (tokenizer.vocab_size for tokenizer in task.tokenizers)
    return Seq2Seq(Seq2SeqConfig(*vocab, max_length=64, **sizes))


def recurrent(task):
    """Return the recurrent model whose number of parameters is nearest to the Transformer's."""
    vocab = [tokenizer.vocab_size for tokenizer in task.tokenizers]

    def sized(d_model):
        options = {"d_embed": D_EMBED, "d_model": d_model, "attention": "additive", "dropout": DROPOUT}
        return Recurrent(RecurrentConfig(*vocab, **options))

    with torch.device("meta"):
        wanted = count(transformer(task))
        width = min(range(16, 512, 2), key=lambda d_model: abs(count(sized(d_model)) - wanted))
    return sized(width)


MODELS = {"transformer": transformer, "recurrent": recurrent}


def trained(task, name, seed, rate, steps, *, rows=ROWS):
    """Return a trained model and the rows of its training, with scores and the seconds of processor time it took."""
    torch.manual_seed(seed)
    model, batch, spent = MODELS[name](task), task.batches(seed), {"paused": 0.0}
    started = time.process_time()

    def evaluate(model):
        paused = time.process_time()
        seconds = paused - started - spent["paused"]
        found = {"validation": task.held_out(model), "seconds": seconds}
        found |= task.scores(model) if rows > 1 else {}
        spent["paused"] += time.process_time() - paused
        return found

    history = train(
        model, batch, translation_loss, steps=steps, rate=rate, warmup=WARMUP, schedule="inverse_sqrt", seed=seed,
        evaluate=evaluate, every=steps // rows, progress=False,
    )  # fmt: skip
    return model, [rounded(row) for row in history]


def rounded(row):
    """Return the numbers of a row to five digits."""
    return {key: float(f"{value:.5g}") for key, value in row.items()}


def lines(kind, task, name):
    """Return the lines of the log about a task and a model."""
    return [line for line in kept(LOG) if (line["kind"], line["task"], line["model"]) == (kind, task.name, name)]


def tuned(task, name):
    """Return the rate whose short run does best on the validation data."""
    found = {line["rate"]: line["rows"][-1]["validation"] for line in lines("tuning", task, name)}
    for rate in RATES:
        if rate not in found:
            _, rows = trained(task, name, 0, rate, task.tuning_steps, rows=1)
            found[rate] = rows[-1]["validation"]
            keep(LOG, {"kind": "tuning", "task": task.name, "model": name, "rate": rate, "rows": rows})
    return min(found, key=found.get)


def run(task, name, seed):
    """Train and log one model; the best Transformer so far is the checkpoint."""
    rate, others = tuned(task, name), lines("run", task, name)
    if seed in {line["seed"] for line in others}:
        return
    model, rows = trained(task, name, seed, rate, task.steps)
    if name == "transformer" and rows[-1]["validation"] < min(
        (line["rows"][-1]["validation"] for line in others), default=torch.inf
    ):
        save_checkpoint(task.checkpoint, asdict(model.config), model)
    about = {"task": task.name, "model": name, "seed": seed, "rate": rate, "parameters": count(model)}
    keep(LOG, {"kind": "run", **about, "rows": rows})


def search(task):
    """Log the scores of the checkpoint for greedy search and for beams."""
    config, weights = checkpoint(task.checkpoint)
    model = Seq2Seq(Seq2SeqConfig(**config)).eval()
    model.load_state_dict(weights)
    known = [line["search"] for line in lines("search", task, "transformer")]
    for options in SEARCHES:
        if options not in known:
            scores = rounded(task.scores(model, **options))
            keep(LOG, {"kind": "search", "task": task.name, "model": "transformer", "search": options, **scores})


def band(values):
    """Return the lowest and the highest."""
    return {"low": round(min(values), 4), "high": round(max(values), 4)}


def summary(task):
    """Return what is read of the log: scores at the end, the recurrent model's also at the Transformer's mean time."""
    runs = {name: lines("run", task, name) for name in MODELS}
    seconds = {name: band([line["rows"][-1]["seconds"] for line in of]) for name, of in runs.items()}
    budget = sum(line["rows"][-1]["seconds"] for line in runs["transformer"]) / len(runs["transformer"])
    ends = {name: [line["rows"][-1] for line in of] for name, of in runs.items()}
    ends["recurrent_in_equal_time"] = [
        next((row for row in line["rows"] if row["seconds"] >= budget), line["rows"][-1]) for line in runs["recurrent"]
    ]
    return {
        "parameters": {name: of[0]["parameters"] for name, of in runs.items()},
        "rates": {name: of[0]["rate"] for name, of in runs.items()},
        "seconds": seconds,
        "items": ends["transformer"][0]["items"],
        "scores": {
            name: {key: band([row[key] for row in rows]) for key in rows[0] if key not in ("rate", "items")}
            for name, rows in ends.items()
        },
        "search": lines("search", task, "transformer"),
        "curves": {
            name: {key: [[row[key] for row in line["rows"]] for line in of] for key in ("step", "seconds", task.score)}
            for name, of in runs.items()
        },
    }


def tiny():
    """Train and score every model for a few steps."""
    for task in TASKS.values():
        for model in MODELS:
            print(task.name, model, trained(replace(task, tested=100), model, 0, RATES[0], 2, rows=1)[1])


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("tasks", nargs="*", default=list(TASKS), help="which tasks, both by default")
    options.add_argument("--minutes", type=float, default=float("inf"), help="begin no run later than this")
    options.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.tiny:
        return tiny()
    started = time.monotonic()
    for name in given.tasks:
        task = TASKS[name]
        for seed in range(SEEDS[name]):
            for model in MODELS:
                if time.monotonic() - started < 60 * given.minutes:
                    run(task, model, seed)
    if all(len(lines("run", task, model)) >= SEEDS[name] for name, task in TASKS.items() for model in MODELS):
        setting = {"d_model": D_MODEL, "heads": HEADS, "layers": LAYERS, "d_mlp": D_MLP, "d_embed": D_EMBED}
        setting |= {"rates": RATES, "seeds": SEEDS, "warmup": WARMUP, "dropout": DROPOUT}
        for task in TASKS.values():
            search(task)
        tasks = {name: {**asdict(task), **summary(task)} for name, task in TASKS.items()}
        save("translation", {"setting": setting, "tasks": tasks})


if __name__ == "__main__":
    main()
