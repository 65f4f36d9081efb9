"""What does a famous bug do to the loss?   python benchmarks/bugs.py

A small decoder reads Moby Dick by characters, once right and once with each bug of `mha.conformance.broken`: the same
first weights, batches and learning rate. Three losses on held-out text are compared, in nats per character:

    seen    as training sees it: whole stretches, the bug in place
    in use  one character at a time, with a cache, the bug still in place: what generation is made of
    ported  the weights of the right model in the code with the bug: what happens to a checkpoint

One sample of each batch begins with eight characters of padding, which are hidden and not asked for.
Small is meant: two layers, 64 wide, stretches of 64 characters, 200 steps. Each run adds a line to the log, and what is
there is not run again; without a log, the whole takes about 9 minutes on one core. `--tiny` trains each decoder for a
few steps and writes nothing.
"""

import argparse
import math
import time
from pathlib import Path

import torch
from character_model import text
from provenance import save
from runs import keep, kept
from torch.nn import functional as F

from mha.conformance.broken import BUGS, Alibi, Decoder

LENGTH, BATCH, STEPS, WARM_UP, RATE, PADDING, SEEDS, EVERY = 64, 16, 200, 20, 3e-3, 8, (0, 1, 2), 5
HELD_OUT = 24  # stretches
DECODERS = {d.__name__: d for d in (Decoder, Alibi, *(bug.decoder for bug in BUGS.values()))}
LOG = Path(__file__).parent / "logs/bugs.jsonl"


def padded(rows):
    """Return inputs, targets and what is real; the first sample begins with padding."""
    keep = torch.ones(rows[:, :-1].shape, dtype=torch.bool)
    keep[0, :PADDING] = False
    inputs, targets = rows[:, :-1].where(keep, 0), rows[:, 1:].where(keep, -100)
    return inputs, targets, keep


def train(decoder, seed, ids, steps=STEPS):
    """Return the model after the last step, and the loss of each step; NaN once the weights are."""
    training, _, num_characters = ids
    torch.manual_seed(seed)
    model = decoder(num_characters)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / WARM_UP)
        starts = torch.randint(len(training) - LENGTH, (BATCH,), generator=generator)
        inputs, targets, keep = padded(training[starts[:, None] + torch.arange(LENGTH + 1)])
        loss = F.cross_entropy(model(inputs, keep=keep)[0].flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        if math.isnan(losses[-1]):
            return model, losses + [math.nan] * (steps - len(losses))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval(), losses


@torch.inference_mode()
def whole(model, rows):
    """Return the loss on whole stretches."""
    return float(F.cross_entropy(model(rows[:, :-1])[0].flatten(0, 1), rows[:, 1:].flatten()))


@torch.inference_mode()
def one_by_one(model, rows):
    """Return the loss at each place, fed one character at a time: (length,)."""
    cache, losses = None, []
    for token, target in zip(rows[:, :-1].unbind(1), rows[:, 1:].unbind(1), strict=True):
        logits, cache = model(token[:, None], cache)
        losses.append(F.cross_entropy(logits[:, 0], target))
    return torch.stack(losses)


def held_out(ids):
    starts = torch.arange(HELD_OUT)[:, None] * LENGTH
    return ids[1][starts + torch.arange(LENGTH + 1)]


def measure(seed, names, ids, steps=STEPS):
    """Train the decoders of one seed and yield what was found, the right ones first."""
    rows, right = held_out(ids), {}
    for name in names:
        start, decoder = time.process_time(), DECODERS[name]
        model, losses = train(decoder, seed, ids, steps)
        base = Alibi if issubclass(decoder, Alibi) else Decoder
        right.setdefault(base, model.state_dict())
        ported = decoder(ids[2]).eval()
        ported.load_state_dict(right[base])
        curve = [sum(losses[n : n + EVERY]) / EVERY for n in range(0, steps, EVERY)]
        places = one_by_one(model, rows)
        found = {"seen": whole(model, rows), "in_use": float(places.mean()), "ported": whole(ported, rows)}
        yield {
            "decoder": name,
            "seed": seed,
            **{key: number(x) for key, x in found.items()},
            "curve": [number(x) for x in curve],
            "seconds": round(time.process_time() - start, 1),
        }


def number(x):
    return round(x, 4) if math.isfinite(x) else None


def run_all(ids):
    """Train what the log does not hold yet; the right models of a seed come first, as their weights are ported."""
    done = {(run["seed"], run["decoder"]) for run in kept(LOG)}
    for seed in SEEDS:
        missing = [name for name in DECODERS if (seed, name) not in done]
        names = dict.fromkeys(["Decoder", "Alibi", *missing]) if missing else ()
        for run in measure(seed, names, ids):
            if run["decoder"] in missing:
                keep(LOG, run)


def frequency_loss(ids):
    """Return the held-out loss of guessing each character by how often it stands in the training text."""
    counts = torch.bincount(ids[0], minlength=ids[2]) + 1
    return float(-(counts / counts.sum()).log()[held_out(ids)[:, 1:]].mean())


def summary(runs):
    """Return for each decoder the three losses, seed by seed, and the curve of each seed."""
    table = {}
    for name in DECODERS:
        own = sorted((run for run in runs if run["decoder"] == name), key=lambda run: run["seed"])
        table[name] = {key: [run[key] for run in own] for key in ("seen", "in_use", "ported", "curve")}
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a few steps of each decoder, nothing written")
    torch.set_num_threads(1)
    ids = text()
    if parser.parse_args().tiny:
        for run in measure(0, DECODERS, ids, steps=EVERY):
            print(run)
        return
    run_all(ids)
    names = "length", "batch", "steps", "warm_up", "rate", "padding", "every"
    values = LENGTH, BATCH, STEPS, WARM_UP, RATE, PADDING, EVERY
    save(
        "bugs",
        {
            "setting": dict(zip(names, values, strict=True)) | {"seeds": SEEDS, "optimiser": "AdamW, no clipping"},
            "frequency_loss": round(frequency_loss(ids), 4),
            "decoders": summary(kept(LOG)),
        },
        note="held-out loss in nats per character: seen (whole stretches), in use (one character at a time, cached), "
        "ported (the weights of the right model in the broken code); curve: mean training loss of every 5 steps; "
        "null: not a number",
    )


if __name__ == "__main__":
    main()
