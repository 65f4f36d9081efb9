"""Does turning queries and keys cost more than in transformers?   python benchmarks/rotary.py

Both are given their angles, worked out beforehand as a model does it once for all layers: ours turns as a layer does,
theirs is `apply_rotary_pos_emb` of Llama. On a processor, one thread. In bfloat16 ours turns in float32 and rounds
once, and theirs computes in bfloat16: the error of each against float64 is there too.
"""

import torch
from provenance import save
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from turns import medians, verdict

from mha import nn
from mha.nn.schemes import turned

MODELS = {"smollm2-135m": (9, 3, 64), "llama-3-8b": (32, 8, 128)}  # query heads, key heads, width
SHAPES = {"prefill": (1, 1024), "token": (1, 1), "16 tokens": (16, 1)}  # batch, length
ROUNDS = {"prefill": 31, "token": 501, "16 tokens": 201}
BASE, PLACE = 10000.0, 1000  # where the first row stands


def compare(model, shape, dtype):
    """Return microseconds of both, their ratio, and the largest errors."""
    num_heads, num_kv_heads, width = MODELS[model]
    batch, n = SHAPES[shape]
    make, positions = torch.Generator().manual_seed(0), torch.arange(n) + PLACE
    exact = [torch.randn(batch, heads, n, width, generator=make).to(dtype) for heads in (num_heads, num_kv_heads)]
    angles = nn.Rotary(BASE).at(positions, width, dtype)
    phases = (positions[:, None] * nn.rotary_frequencies(width, BASE)).repeat(1, 2)[None]
    tables = phases.cos().to(dtype), phases.sin().to(dtype)
    contenders = {
        "mha": lambda: turned(angles, *exact, positions, positions),
        "transformers": lambda: apply_rotary_pos_emb(*exact, *tables),
    }
    with torch.no_grad():
        taken = medians(contenders, ROUNDS[shape])
        right = nn.rotate(exact[0].double(), positions, base=BASE)
        errors = {name: float((run()[0].double() - right).abs().max()) for name, run in contenders.items()}
    return {
        "microseconds": {name: round(1e6 * t, 1) for name, t in taken.items()},
        "ratio": round(taken["mha"] / taken["transformers"], 3),
        "error": {name: float(f"{error:.2g}") for name, error in errors.items()},
    }


def main():
    torch.set_num_threads(1)
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        for model in MODELS:
            for shape in SHAPES:
                row = compare(model, shape, dtype)
                name = str(dtype).removeprefix("torch.")
                found.setdefault(name, {}).setdefault(model, {})[shape] = row
                print(name, model, shape, row, verdict(1.0, row["ratio"] <= 1.0), flush=True)
    setting = {"models": MODELS, "shapes": SHAPES, "threads": 1, "rounds": ROUNDS}
    save("rotary", {"setting": setting, "times": found}, note="medians of turns in one process, time of the one thread")


if __name__ == "__main__":
    main()
