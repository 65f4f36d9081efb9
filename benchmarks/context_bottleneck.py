"""Is one fixed vector a bottleneck, and does attention remove it?   python benchmarks/context_bottleneck.py

A small recurrent encoder–decoder reads phrases of Moby Dick, letters and spaces, and writes them backwards. It trains
on lengths of 4 to 20 and is tested on held-out chapters, greedily, at 4 to 40. Models with attention, each in the form
of its paper, are 64 wide. The plain one gets the width that gives it as many parameters as the largest of them, and
once more four times the steps. The learning rate of each is tuned on one grid by the training loss: of runs of half the
length, and of the full length for the plain model, which is in its favour. Small is meant: one layer, 500 steps of 64
phrases; the result is about this size and this task.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 10 minutes of
one core. The result file is a summary of the log. `--tiny` trains each model for a few steps and writes nothing.
"""

import argparse
import re
import time
from pathlib import Path
from typing import NamedTuple

import torch
from provenance import save
from runs import keep, kept
from torch.nn import functional as F

from mha.data import load
from mha.data.checkpoints import save_checkpoint
from mha.data.tokenizer import BOS, EOS, CharacterTokenizer
from mha.models.recurrent import Recurrent, RecurrentConfig

TRAINED, TESTED, NUM_TESTED = range(4, 21), range(4, 41, 4), 256
BATCH, STEPS, TUNING_STEPS, WARM_UP, RATES, SEEDS = 64, 500, 250, 50, (5e-3, 1e-2, 2e-2), (0, 1, 2)
FOLDER = Path(__file__).parent
LOG = FOLDER / "logs/context_bottleneck.jsonl"


class Setting(NamedTuple):
    """How a model is built and how long it trains, in units of STEPS; `rate_of` names another whose rate it takes."""

    attention: str | None = None
    d_model: int = 64
    longer: int = 1
    rate_of: str = ""


MODELS = {
    "none": Setting(d_model=70),
    "additive": Setting("additive"),
    "dot": Setting("dot"),
    "general": Setting("general"),
    "concat": Setting("concat"),
    "local": Setting("local"),
    "none_longer": Setting(d_model=70, longer=4, rate_of="none"),
}
KEPT = ("none", "additive", "dot", "local")  # whose first seed the book shows


class Phrases:
    """Stretches of whole words, by their exact length in characters."""

    def __init__(self, text, tokenizer):
        self.ids, self.space = torch.tensor(tokenizer.encode(text)), tokenizer.encode(" ")[0]
        self.begins = (self.ids == self.space).nonzero()[:, 0] + 1
        self.of_length = {}

    def starts(self, length):
        if length not in self.of_length:
            begins = self.begins[self.begins + length < len(self.ids)]
            ends = (self.ids[begins + length] == self.space) & (self.ids[begins + length - 1] != self.space)
            self.of_length[length] = begins[ends]
        return self.of_length[length]

    def draw(self, length, count, generator):
        """Return phrases (count, length) drawn with a generator."""
        starts = self.starts(length)
        picked = starts[torch.randint(len(starts), (count,), generator=generator)]
        return self.ids[picked[:, None] + torch.arange(length)]


def data():
    """Return the phrases to train on, those of the last tenth of the book, and the tokenizer."""
    text = re.sub("[^a-z]+", " ", " ".join(load("moby_dick")["text"]).lower())
    tokenizer, cut = CharacterTokenizer([text]), text.index(" ", len(text) * 9 // 10)
    return Phrases(text[:cut], tokenizer), Phrases(text[cut:], tokenizer), tokenizer


def build(name, tokenizer):
    given = MODELS[name]
    sizes = {"d_embed": 32, "d_model": given.d_model, "attention": given.attention}
    return Recurrent(RecurrentConfig(tokenizer.vocab_size, tokenizer.vocab_size, **sizes))


def train(name, seed, rate, steps, phrases, tokenizer):
    """Return the trained model and the mean loss of its last 50 steps; batches are those of the seed."""
    torch.manual_seed(seed)
    model, generator, losses = build(name, tokenizer), torch.Generator().manual_seed(seed), []
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / WARM_UP) * max(0, 1 - step / steps) ** 0.5
    )
    for _ in range(steps):
        length = TRAINED[int(torch.randint(len(TRAINED), (1,), generator=generator))]
        source = phrases.draw(length, BATCH, generator)
        target, edge = source.flip(1), source.new_ones(BATCH, 1)
        logits = model(source, torch.cat([BOS * edge, target], 1))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.cat([target, EOS * edge], 1).flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return model.eval(), sum(losses[-50:]) / len(losses[-50:])


@torch.no_grad()
def written(model, source):
    """Return what the model writes, greedily, as many tokens as it read."""
    given, tokens = model.given(source), source.new_full((len(source), 1), BOS)
    caches, out = given.caches(), []
    for _ in range(source.shape[1]):
        logits, caches = given.step(tokens, caches, last=True)
        tokens = logits[:, -1:].argmax(-1)
        out.append(tokens)
    return torch.cat(out, 1)


@torch.no_grad()
def measured(model, phrases):
    """Return by length the share of characters and of phrases that are right, and of steps that look at their source.

    A step looks at its source if its largest weight, teacher forced, is on the character that it has to write.
    """
    found = {"characters": {}, "phrases": {}} | ({"looks": {}} if model.config.attention else {})
    generator = torch.Generator().manual_seed(1000)
    for length in TESTED:
        source = phrases.draw(length, NUM_TESTED, generator)
        right = (written(model, source) == source.flip(1)).float()
        found["characters"][length] = round(float(right.mean()), 4)
        found["phrases"][length] = round(float(right.prod(1).mean()), 4)
        if model.config.attention:
            target = torch.cat([source.new_full((NUM_TESTED, 1), BOS), source.flip(1)[:, :-1]], 1)
            looked = model.attention_maps(source, target)[0, :, 0].argmax(-1)
            at_source = looked == torch.arange(length - 1, -1, -1)
            found["looks"][length] = round(float(at_source.float().mean()), 4)
    return found


def tuned(name, log, phrases, tokenizer):
    """Return the rate whose run ends with the lowest training loss; no held-out text is looked at."""
    name = MODELS[name].rate_of or name
    steps = TUNING_STEPS if MODELS[name].attention else STEPS
    found = {line["rate"]: line["loss"] for line in kept(log) if (line["kind"], line["model"]) == ("tuning", name)}
    for rate in RATES:
        if rate not in found:
            found[rate] = round(train(name, 0, rate, steps, phrases, tokenizer)[1], 4)
            keep(log, {"kind": "tuning", "model": name, "rate": rate, "loss": found[rate]})
    return min(found, key=found.get)


def run(name, seed, log, training, held_out, tokenizer):
    """Train and measure a model; keep its weights if the book shows them."""
    rate, started = tuned(name, log, training, tokenizer), time.process_time()
    model, loss = train(name, seed, rate, STEPS * MODELS[name].longer, training, tokenizer)
    about = {"kind": "run", "model": name, "seed": seed, "rate": rate, "loss": round(loss, 4)}
    about |= {"parameters": sum(p.numel() for p in model.parameters())}
    about |= {"busy_seconds": round(time.process_time() - started, 1)}
    if name in KEPT and seed == SEEDS[0]:
        save_checkpoint(f"backwards_{name}", vars(model.config), model)
    keep(log, about | measured(model, held_out))


def summary(lines):
    """Return what is read of a log: for each model the mean over its seeds, the lowest and the highest."""

    def over_seeds(values):
        return {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}

    table, runs = {}, [line for line in lines if line["kind"] == "run"]
    for name in MODELS:
        of_model = [run for run in runs if run["model"] == name]
        if not of_model:
            continue
        about = {key: of_model[0][key] for key in ("rate", "parameters")} | {"seeds": len(of_model)}
        about |= {key: over_seeds([run[key] for run in of_model]) for key in ("loss", "busy_seconds")}
        for share in ("characters", "phrases", "looks"):
            if share in of_model[0]:
                about[share] = {str(n): over_seeds([run[share][str(n)] for run in of_model]) for n in TESTED}
        table[name] = about
    return {"summary": table}


def tiny():
    """Train and measure every model for a few steps."""
    training, held_out, tokenizer = data()
    for name in MODELS:
        model, loss = train(name, 0, RATES[0], 3, training, tokenizer)
        print(name, sum(p.numel() for p in model.parameters()), round(loss, 2), measured(model, held_out)["characters"])


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("models", nargs="*", default=list(MODELS), help="which to train, all by default")
    options.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.tiny:
        return tiny()
    everything = data()
    for seed in SEEDS:
        for name in given.models:
            if (name, seed) not in {(line["model"], line.get("seed")) for line in kept(LOG)}:
                run(name, seed, LOG, *everything)
    setting = {
        "trained": [TRAINED[0], TRAINED[-1]], "tested": list(TESTED), "num_tested": NUM_TESTED, "batch": BATCH,
        "steps": STEPS, "tuning_steps": TUNING_STEPS, "rates": RATES, "seeds": SEEDS,
        "models": {name: model._asdict() for name, model in MODELS.items()},
    }  # fmt: skip
    save(
        "context_bottleneck",
        {"setting": setting, **summary(kept(LOG))},
        note="shares that are right, on held-out chapters",
    )


if __name__ == "__main__":
    main()
