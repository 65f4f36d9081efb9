"""Which position scheme holds beyond the length it was trained at?   python benchmarks/length_extrapolation.py

A small character model reads Moby Dick in stretches of 64 characters, once with each scheme and seed; first weights and
batches are those of the seed, the learning rate is tuned for the scheme by shorter runs. Then it reads held-out text
in windows of 64 to 1024: the same characters at each length, each predicted from what stands before it in its window.
Small is meant: two layers, 64 wide; what is measured here is about this size.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 45 minutes on
one core. The result file is a summary of the log. `--tiny` trains each scheme for a few steps and writes nothing.
"""

import argparse
import time
from pathlib import Path

import torch
from character_model import BATCH, D_MODEL, HEADS, HELD_OUT, LAYERS, LENGTH, Scheme, losses, text, train
from provenance import save
from runs import keep, kept

from mha import masks, nn

STEPS, TUNING_STEPS, RATES, SEEDS = 1000, 250, (3e-3, 1e-2, 3e-2, 1e-1), (0, 1, 2)
LENGTHS, BANDS = (64, 128, 256, 512, 1024), 16
LOG = Path(__file__).parent / "logs/length_extrapolation.jsonl"


def learned_table():
    """Return a table of positions drawn like the characters: as large beside them as in BERT and GPT-2."""
    positions = nn.LearnedPositions(LENGTH, D_MODEL)
    torch.nn.init.normal_(positions.weight)
    return positions


SCHEMES = {
    "none": Scheme(),
    "sinusoidal": Scheme(added=lambda: nn.SinusoidalPositions(D_MODEL)),
    "learned": Scheme(added=learned_table, longest=LENGTH),
    "shaw": Scheme(lambda: nn.ShawBias(D_MODEL // HEADS, max_distance=16)),
    "transformer_xl": Scheme(lambda: nn.TransformerXLBias(D_MODEL, HEADS)),
    "t5": Scheme(lambda: nn.RelativeBias(HEADS, num_buckets=16, max_distance=32, bidirectional=False)),
    "deberta": Scheme(lambda: nn.DisentangledBias(D_MODEL, HEADS, span=32)),
    "alibi": Scheme(lambda: nn.Alibi(HEADS)),
    "rotary": Scheme(nn.Rotary),
}

FREQUENCIES = nn.rotary_frequencies(D_MODEL // HEADS)
STRETCHED = {
    "rotary_interpolated": lambda factor: nn.RotaryFrequencies(nn.interpolated_frequencies(FREQUENCIES, factor)),
    "rotary_ntk": lambda factor: nn.RotaryFrequencies(nn.ntk_frequencies(FREQUENCIES, factor)),
    "rotary_yarn": lambda factor: nn.RotaryFrequencies(
        nn.yarn_frequencies(FREQUENCIES, factor, LENGTH), gain=nn.yarn_gain(factor)
    ),
}


def measured(model, scheme, held_out, stretched=None):
    """Return the mean loss by length, that by place in the longest windows, and that when a query sees 64 keys only.

    `stretched(factor)` is a scheme that takes the place of the model's own at a length of `factor` times 64.
    """
    found = {"loss": {}}
    for length in LENGTHS:
        if length > (scheme.longest or length):
            return found | {"refused_from": length}
        if stretched is not None:
            for block in model.blocks:
                block.attend.position = stretched(length / LENGTH)
        by_place = losses(model, held_out, length)
        found["loss"][length] = round(float(by_place.mean()), 4)
    found["by_place"] = [round(float(band.mean()), 4) for band in by_place.chunk(BANDS)]
    windowed = losses(model, held_out, LENGTHS[-1], masks.causal & masks.window_of(LENGTH))
    return found | {"windowed": round(float(windowed.mean()), 4)}


def tuned(name, log, data):
    """Return the rate whose short run ends with the lowest training loss; no held-out text is looked at.

    Rates are tried upwards, until one is worse.
    """
    ids, _, num_characters = data
    found = {line["rate"]: line["loss"] for line in kept(log) if (line["kind"], line["scheme"]) == ("tuning", name)}
    for rate in RATES:
        if rate not in found:
            _, found[rate] = train(SCHEMES[name], 0, rate, TUNING_STEPS, ids, num_characters)
            keep(log, {"kind": "tuning", "scheme": name, "rate": rate, "loss": round(found[rate], 4)})
        if found[rate] > min(found.values()):
            break
    return min(found, key=found.get)


def learned(weight):
    """Return a table (buckets, heads) as lists, one a head."""
    return [[round(x, 3) for x in row] for row in weight.T.tolist()]


def run(name, seed, log, data):
    """Train and measure one scheme, and what is made of its model at evaluation."""
    ids, held_out, num_characters = data
    rate, started = tuned(name, log, data), time.perf_counter()
    model, training_loss = train(SCHEMES[name], seed, rate, STEPS, ids, num_characters)
    about = {"kind": "run", "scheme": name, "seed": seed, "rate": rate, "training_loss": round(training_loss, 4)}
    about |= {"parameters": sum(p.numel() for p in model.parameters()), "seconds": round(time.perf_counter() - started)}
    if name == "t5":
        about["tables"] = [learned(block.attend.position.weight) for block in model.blocks]
    keep(log, about | measured(model, SCHEMES[name], held_out))
    for other, stretched in STRETCHED.items() if name == "rotary" else ():
        keep(log, about | {"scheme": other} | measured(model, SCHEMES[name], held_out, stretched))


def summary(lines):
    """Return what is read of a log: for each scheme the mean over its seeds, the lowest and the highest."""

    def over_seeds(values):
        return {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}

    table, runs = {}, [line for line in lines if line["kind"] == "run"]
    for name in (*SCHEMES, *STRETCHED):
        of_scheme = [run for run in runs if run["scheme"] == name]
        if not of_scheme:
            continue
        first = of_scheme[0]
        about = {key: first[key] for key in ("rate", "parameters", "refused_from") if key in first}
        about["loss"] = {str(n): over_seeds([run["loss"][n] for run in of_scheme]) for n in first["loss"]}
        if "windowed" in first:
            about["windowed"] = over_seeds([run["windowed"] for run in of_scheme])
            bands = zip(*(run["by_place"] for run in of_scheme), strict=True)
            about["by_place"] = [over_seeds(band)["mean"] for band in bands]
        table[name] = about
    return {"summary": table, "t5_tables": [run["tables"] for run in runs if "tables" in run]}


def tiny():
    """Train and measure every scheme for a few steps."""
    ids, held_out, num_characters = text()
    for name, scheme in SCHEMES.items():
        model, loss = train(scheme, 0, RATES[0], 3, ids, num_characters)
        print(name, round(loss, 2), measured(model, scheme, held_out[: LENGTHS[-1] + 1]))
        for other, stretched in STRETCHED.items() if name == "rotary" else ():
            print(other, measured(model, scheme, held_out[: LENGTHS[-1] + 1], stretched))


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("schemes", nargs="*", default=list(SCHEMES), help="which to train, all by default")
    options.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.tiny:
        return tiny()
    data = text()
    for seed in SEEDS:
        for name in given.schemes:
            if (name, seed) not in {(line["scheme"], line.get("seed")) for line in kept(LOG)}:
                run(name, seed, LOG, data)
    setting = {
        "d_model": D_MODEL, "heads": HEADS, "layers": LAYERS, "length": LENGTH, "batch": BATCH, "steps": STEPS,
        "tuning_steps": TUNING_STEPS, "rates": RATES, "seeds": SEEDS, "lengths": LENGTHS, "held_out": HELD_OUT,
        "band": LENGTHS[-1] // BANDS,
    }  # fmt: skip
    save("length_extrapolation", {"setting": setting, **summary(kept(LOG))}, note="held-out loss in nats a character")


if __name__ == "__main__":
    main()
