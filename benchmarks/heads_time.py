"""Does one layer take longer when its width is cut into more heads?   python benchmarks/heads_time.py

One attention layer at fixed d_model, 1 to 32 heads, forward pass, all variants interleaved in one process. `fused`
never stores the scores; `plain` does, so it shows what heads·n² scores cost.
"""

import statistics
import time

import torch
from provenance import save

from mha import nn

D_MODEL, BATCH, LENGTHS, HEADS, ROUNDS = 512, 2, (128, 512), (1, 2, 4, 8, 16, 32), 25


def plain(q, k, v, *, dropout=None, **options):
    """Attention that stores its weights."""
    return nn.attention_weights(q, k, **options) @ v


def layers(core):
    torch.manual_seed(0)
    return {h: nn.MultiHeadAttention(D_MODEL, h, core=core).eval() for h in HEADS}


@torch.no_grad()
def measure():
    """Return seconds[core][length][heads], a list of samples each."""
    cores = {"fused": layers(nn.attention), "plain": layers(plain)}
    inputs = {n: torch.randn(BATCH, n, D_MODEL) for n in LENGTHS}
    seconds = {core: {n: {h: [] for h in HEADS} for n in LENGTHS} for core in cores}
    for round_ in range(ROUNDS + 2):
        for core, by_heads in cores.items():
            for n, x in inputs.items():
                for h, layer in by_heads.items():
                    start = time.perf_counter()
                    layer(x)
                    if round_ >= 2:
                        seconds[core][n][h].append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    torch.set_num_threads(1)
    samples = measure()
    ratios = {
        core: {
            n: {h: round(statistics.median(s) / statistics.median(by_heads[1]), 3) for h, s in by_heads.items()}
            for n, by_heads in by_length.items()
        }
        for core, by_length in samples.items()
    }
    print(ratios)
    setting = {"d_model": D_MODEL, "batch": BATCH, "threads": 1, "rounds": ROUNDS, "dtype": "float32"}
    rounded = {
        c: {n: {h: [round(t, 6) for t in s] for h, s in x.items()} for n, x in y.items()} for c, y in samples.items()
    }
    save("heads_time", {"setting": setting, "ratio_to_one_head": ratios, "seconds": rounded}, note="medians, one run")
