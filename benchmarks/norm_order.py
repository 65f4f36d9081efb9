"""Does it matter where the layer norm stands?   python benchmarks/norm_order.py

Post-norm (Vaswani et al. 2017) normalises the stream after each addition, pre-norm what a sub-layer reads. Xiong et al.
(2020) say that post-norm needs warm-up, because its last layers have large gradients at initialisation. A small
character model reads Moby Dick in both orders, shallow and deep, with and without warm-up; first weights and batches
are those of the seed, the grid of learning rates is one for all. The gradients at initialisation are measured apart.
Small is meant: 32 wide, stretches of 32 characters, 200 steps; the result is about this size.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 12 minutes on
one core. The result file is a summary of the log. `--tiny` trains each setting for a few steps and writes nothing.
"""

import argparse
import itertools
import math
import time
from pathlib import Path

import torch
from character_model import text
from provenance import save
from runs import keep, kept
from torch.nn import functional as F

from mha import masks, nn

D_MODEL, HEADS, D_MLP, LENGTH, BATCH, STEPS, WARM_UP = 32, 4, 128, 32, 16, 200, 100
ORDERS, DEPTHS, RATES, SEEDS = ("post", "pre"), (2, 12), (3e-4, 1e-3, 3e-3, 1e-2), (0, 1, 2)
GRADIENT_DEPTHS, GRADIENT_DRAWS = (2, 4, 8, 16, 32), 5
LEARNED = 0.2  # nats below the loss of guessing by frequency
LOG = Path(__file__).parent / "logs/norm_order.jsonl"


class Model(torch.nn.Module):
    """Characters in, logits of the next one out; pre-norm has one more norm, after the last block, as is usual."""

    def __init__(self, order, depth, num_characters):
        super().__init__()
        self.characters = torch.nn.Embedding(num_characters, D_MODEL)
        self.positions = torch.nn.Embedding(LENGTH, D_MODEL)
        self.blocks = torch.nn.ModuleList(
            nn.EncoderBlock(D_MODEL, HEADS, D_MLP, norm_first=order == "pre") for _ in range(depth)
        )
        self.norm = torch.nn.LayerNorm(D_MODEL) if order == "pre" else torch.nn.Identity()
        self.read = torch.nn.Linear(D_MODEL, num_characters)
        self.apply(_initialise)

    def forward(self, ids):
        x = self.characters(ids) + self.positions.weight[: ids.shape[-1]]
        for block in self.blocks:
            x = block(x, mask=masks.causal)
        return self.read(self.norm(x))


def _initialise(part):
    """Draw as Xiong et al. do: Glorot's uniform law for matrices, biases 0; the stream begins at a scale of 1."""
    if isinstance(part, torch.nn.Linear):
        torch.nn.init.xavier_uniform_(part.weight)
        torch.nn.init.zeros_(part.bias)
    elif isinstance(part, torch.nn.Embedding):
        torch.nn.init.normal_(part.weight, std=0.5**0.5)


def batch(ids, generator):
    starts = torch.randint(len(ids) - LENGTH, (BATCH,), generator=generator)
    rows = ids[starts[:, None] + torch.arange(LENGTH + 1)]
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def train(order, depth, warm_up, rate, seed, ids, steps=STEPS):
    """Return the loss on held-out text after the last step; infinite where the training left the numbers."""
    training, held_out, num_characters = ids
    torch.manual_seed(seed)
    model = Model(order, depth, num_characters)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / WARM_UP) if warm_up else rate
        loss = loss_of(model, *batch(training, generator))
        if not loss.isfinite():
            return math.inf
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    generator = torch.Generator().manual_seed(1000)
    with torch.inference_mode():
        losses = [loss_of(model, *batch(held_out, generator)) for _ in range(20)]
    return float(torch.stack(losses).mean())


def gradients(order, depth, ids):
    """Return the norm of the gradient of the second feed-forward matrix of each block, before the first step."""
    training, _, num_characters = ids
    found = []
    for seed in range(GRADIENT_DRAWS):
        torch.manual_seed(seed)
        model = Model(order, depth, num_characters)
        loss_of(model, *batch(training, torch.Generator().manual_seed(seed))).backward()
        found.append([float(block.feed_forward.down.weight.grad.norm()) for block in model.blocks])
    return [sum(layer) / len(layer) for layer in zip(*found, strict=True)]


def frequency_loss(ids):
    """Return the held-out loss of guessing each character by how often it stands in the training text."""
    training, held_out, num_characters = ids
    counts = torch.bincount(training, minlength=num_characters) + 1
    return float(-(counts / counts.sum()).log()[held_out].mean())


def run_all(ids):
    """Train what the log does not hold yet; the shallow models come first."""
    done = {key(run) for run in kept(LOG)}
    for depth, seed, order, warm_up, rate in itertools.product(DEPTHS, SEEDS, ORDERS, (True, False), RATES):
        run = {"order": order, "depth": depth, "warm_up": warm_up, "rate": rate, "seed": seed}
        if key(run) in done:
            continue
        start = time.process_time()
        loss = train(**run, ids=ids)
        run |= {"loss": round(loss, 4) if math.isfinite(loss) else None}
        run |= {"seconds": round(time.process_time() - start, 1)}
        keep(LOG, run)


def key(run):
    return tuple(run[name] for name in ("order", "depth", "warm_up", "rate", "seed"))


def summary(runs, floor):
    """Return for each order, depth and warm-up: the losses of each rate, the best rate, and how many runs failed."""
    table = []
    for depth, order, warm_up in itertools.product(DEPTHS, ORDERS, (True, False)):
        own = [run for run in runs if (run["order"], run["depth"], run["warm_up"]) == (order, depth, warm_up)]
        by_rate = {rate: [run["loss"] for run in own if run["rate"] == rate] for rate in RATES}
        failed = {rate: sum(x is None or x > floor - LEARNED for x in losses) for rate, losses in by_rate.items()}
        middle = {
            rate: sorted(math.inf if x is None else x for x in losses)[len(losses) // 2]
            for rate, losses in by_rate.items()
        }
        best = min(middle, key=middle.get)
        band = [min(by_rate[best]), max(by_rate[best])]
        row = {
            "depth": depth,
            "order": order,
            "warm_up": warm_up,
            "best_rate": best,
            "median": middle[best],
            "band": band,
        }
        table.append({**row, "losses": by_rate, "failed": failed})
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a few steps of each setting, nothing written")
    torch.set_num_threads(1)
    ids = text()
    if parser.parse_args().tiny:
        for order, warm_up in itertools.product(ORDERS, (True, False)):
            print(order, warm_up, train(order, 2, warm_up, 1e-3, 0, ids, steps=3))
        return
    run_all(ids)
    runs, floor = kept(LOG), frequency_loss(ids)
    names = "d_model", "num_heads", "d_mlp", "length", "batch", "steps", "warm_up_steps"
    setting = dict(zip(names, (D_MODEL, HEADS, D_MLP, LENGTH, BATCH, STEPS, WARM_UP), strict=True))
    found = {order: {depth: gradients(order, depth, ids) for depth in GRADIENT_DEPTHS} for order in ORDERS}
    save(
        "norm_order",
        {
            "setting": {**setting, "rates": RATES, "seeds": SEEDS, "optimiser": "Adam (0.9, 0.98), no clipping"},
            "frequency_loss": round(floor, 4),
            "summary": summary(runs, floor),
            "gradients": {order: {d: [round(x, 5) for x in g] for d, g in found[order].items()} for order in ORDERS},
            "runs": runs,
        },
        note="held-out loss in nats per character; failed: less than 0.2 nats below guessing by frequency; gradients: "
        "norm of the gradient of the second feed-forward matrix, block by block, mean of 5 draws",
    )


if __name__ == "__main__":
    main()
