"""What does a capture cost a forward pass, as long as nobody asks for weights?   python benchmarks/capture_overhead.py

MiniLM on a batch and SmolLM2 on a prompt, one thread, without and with `capture`; the two take turns at going first.
"""

import argparse
import statistics
from pathlib import Path

import torch
from provenance import save, write
from pruned_speed import FULL, TINY, models, seconds

from mha.analysis import capture

LIMIT = 1.10  # of the time without


def captured(model, tokens):
    with capture(model, detach=True):
        model(tokens)


@torch.inference_mode()
def measured(model, tokens, rounds):
    """Return the seconds of each round, and the median of what the second is of the first."""
    runs = {"alone": lambda: model(tokens), "captured": lambda: captured(model, tokens)}
    taken = {name: [] for name in runs}
    for round_ in range(rounds + 1):
        for name in sorted(runs, reverse=bool(round_ % 2)):
            sample = seconds(runs[name])
            if round_:  # the first warms up
                taken[name].append(round(sample, 5))
    ratios = [x / alone for x, alone in zip(taken["captured"], taken["alone"], strict=True)]
    return {"median_ratio": round(statistics.median(ratios), 4), "seconds": taken}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="random models of a few heads, to see that it runs")
    parser.add_argument("--out", type=Path, help="write here, not into the package")
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting, rounds = (TINY, 2) if options.tiny else (FULL, 11)
    found = {
        name: measured(model, tokens, rounds) for name, (model, tokens, _) in models(options.tiny, setting).items()
    }
    print({name: entry["median_ratio"] for name, entry in found.items()}, "limit", LIMIT)
    kept = {name: setting[name] for name in ("batch", "sentence", "prompt")}
    result = {"setting": kept | {"rounds": rounds, "threads": 1}, "limit": LIMIT, "models": found}
    note = "seconds of processor time; the weights are not asked for; one run"
    if options.out:
        write("capture_overhead", {"note": note, **result}, options.out)
    elif not options.tiny:
        save("capture_overhead", result, note=note)


if __name__ == "__main__":
    main()
