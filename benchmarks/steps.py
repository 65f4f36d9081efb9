"""Does a layer of attention read a sequence faster than a recurrent one?   python benchmarks/steps.py

One GRU layer and one attention layer of the same width, forward and forward + backward, interleaved in one process.
Both do the work of all positions; only the GRU must do it position after position.
"""

import statistics
import time

import torch
from provenance import save

from mha import nn

D_MODEL, HEADS, LENGTHS, ROUNDS = 256, 4, (32, 64, 128, 256, 512, 1024, 2048, 4096), 7


def layers():
    torch.manual_seed(0)
    gru = torch.nn.GRU(D_MODEL, D_MODEL, batch_first=True)
    return {"recurrent": lambda x: gru(x)[0], "attention": nn.MultiHeadAttention(D_MODEL, HEADS)}


def forward(layer, x):
    with torch.no_grad():
        layer(x)


def both(layer, x):
    layer(x).sum().backward()


def measure():
    """Return seconds[pass][layer][length], a list of samples each."""
    passes, by_name = {"forward": forward, "both": both}, layers()
    inputs = {n: torch.randn(1, n, D_MODEL) for n in LENGTHS}
    seconds = {kind: {name: {n: [] for n in LENGTHS} for name in by_name} for kind in passes}
    for round_ in range(ROUNDS + 1):
        for kind, run in passes.items():
            for n, x in inputs.items():
                for name, layer in by_name.items():
                    start = time.perf_counter()
                    run(layer, x)
                    if round_ >= 1:
                        seconds[kind][name][n].append(time.perf_counter() - start)
    return seconds


def in_milliseconds(by_length):
    return {n: float(f"{1000 * statistics.median(samples):.3g}") for n, samples in by_length.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    samples = measure()
    medians = {kind: {name: in_milliseconds(x) for name, x in by.items()} for kind, by in samples.items()}
    ratios = {
        kind: {n: float(f"{by['recurrent'][n] / by['attention'][n]:.3g}") for n in LENGTHS}
        for kind, by in medians.items()
    }
    print(medians, ratios, sep="\n")
    setting = {"d_model": D_MODEL, "heads": HEADS, "batch": 1, "threads": 1, "rounds": ROUNDS, "dtype": "float32"}
    rounded = {
        kind: {name: {n: [round(t, 6) for t in s] for n, s in x.items()} for name, x in by.items()}
        for kind, by in samples.items()
    }
    found = {"setting": setting, "milliseconds": medians, "recurrent_over_attention": ratios, "seconds": rounded}
    save("steps", found, note="medians, one run")
