"""Random calls of the kernels: any sizes, masks composed at random, tiles of any size, and noise where nobody looks.

    TRITON_INTERPRET=1 python tests/kernels/fuzz.py 1000 [first seed]

Every call has a seed of its own: what fails is repeated by `check_call(seed)`.
"""

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import fuzz_masks
from kernels import options
from kernels.judge import check
from mha import kernels
from mha.kernels.dot_product import problem
from mha.kernels.tile_sizes import TileSize

TILES = 16, 32, 64


def check_call(seed):
    """Draw one call and judge it."""
    rng = np.random.default_rng(seed)
    size = TileSize(int(rng.choice(TILES)), int(rng.choice(TILES)), 4, 1)
    row = draw_row(rng, size)
    call = options.call_of(row | {"mask": "none"}, seed)
    if row["mask"] != "none":
        batch, heads, n_q, n_k = call.weights_shape
        call.mask = fuzz_masks.draw_mask(rng, SimpleNamespace(batch=batch, heads=heads, n_q=n_q, n_k=n_k)).mask
    call.noise = float(rng.choice([math.nan, math.inf, -math.inf])) if rng.random() < 0.5 else None
    with mock.patch.object(problem, "tile_size", return_value=size):
        check(call, kernels)


def draw_row(rng, size):
    """Return a row of options: each that of the grid, but sizes as they come, up to three tiles each way."""
    row = {name: values[rng.integers(len(values))] for name, values in options.FACTORS.items()}
    groups = int(rng.integers(1, 3))
    row["heads"] = groups * int(rng.integers(1, 3)), groups
    row["n_q"], row["n_k"] = (int(rng.integers(0, 5 * tile // 2)) for tile in (size.bm, size.bn))
    row["width"], row["value width"] = (int(rng.integers(1, 81)) for _ in range(2))
    row["scale"] = float(rng.uniform(-1, 1)) if rng.random() < 0.5 else None
    row["softcap"] = float(rng.uniform(0.5, 5)) if rng.random() < 0.3 else None
    row["dropout"] = float(rng.uniform(0, 0.7)) if rng.random() < 0.3 else None
    return row


def main(number, first):
    torch.use_deterministic_algorithms(True)  # which fills empty memory with NaN
    failed = []
    for seed in range(first, first + number):
        try:
            check_call(seed)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error).strip()[:600]}", flush=True)
    print(f"{number} calls from seed {first}, failed: {failed or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
