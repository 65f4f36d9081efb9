"""Do more heads train more steadily?   python benchmarks/heads_stability.py

The same small character model on Moby Dick with 1, 2, 4 and 8 heads at fixed width, several seeds and learning rates.
Small is meant: two layers, 64 wide, some hundred steps; the result is about this size.
"""

import itertools
import statistics

import torch
from provenance import save
from torch.nn import functional as F

from mha import masks, nn
from mha.data import load

D_MODEL, LENGTH, BATCH, STEPS, LAYERS = 64, 64, 16, 300, 2
HEADS, SEEDS, RATES = (1, 2, 4, 8), range(5), (1e-3, 3e-3, 1e-2)


class Block(torch.nn.Module):
    """Attention, then a feed-forward layer, each with a norm before and a residual around it."""

    def __init__(self, num_heads):
        super().__init__()
        self.attend = nn.MultiHeadAttention(D_MODEL, num_heads)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(D_MODEL, 4 * D_MODEL), torch.nn.GELU(), torch.nn.Linear(4 * D_MODEL, D_MODEL)
        )
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(D_MODEL) for _ in range(2))

    def forward(self, x):
        x = x + self.attend(self.norms[0](x), mask=masks.causal)
        return x + self.feed(self.norms[1](x))


class Model(torch.nn.Module):
    """Characters in, logits of the next character out."""

    def __init__(self, num_heads, num_characters):
        super().__init__()
        self.characters = torch.nn.Embedding(num_characters, D_MODEL)
        self.positions = torch.nn.Embedding(LENGTH, D_MODEL)
        self.blocks = torch.nn.Sequential(*(Block(num_heads) for _ in range(LAYERS)))
        self.read = torch.nn.Sequential(torch.nn.LayerNorm(D_MODEL), torch.nn.Linear(D_MODEL, num_characters))

    def forward(self, ids):
        return self.read(self.blocks(self.characters(ids) + self.positions.weight))


def text():
    """Return the book as character ids, and the number of characters."""
    book = "\n".join(load("moby_dick")["text"])
    alphabet = sorted(set(book))
    number = {c: n for n, c in enumerate(alphabet)}
    return torch.tensor([number[c] for c in book]), len(alphabet)


def batch(ids, generator):
    starts = torch.randint(len(ids) - LENGTH, (BATCH,), generator=generator)
    rows = ids[starts[:, None] + torch.arange(LENGTH + 1)]
    return rows[:, :-1], rows[:, 1:]


def train(ids, num_characters, num_heads, seed, rate):
    """Return the loss on held-out text after training, and how unsteady the path was: the largest rise of the
    training loss, averaged over ten steps, above its lowest value so far."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    cut = len(ids) * 9 // 10
    model = Model(num_heads, num_characters)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for _ in range(STEPS):
        inputs, targets = batch(ids[:cut], generator)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    held_out = torch.Generator().manual_seed(1000)
    with torch.no_grad():
        final = [
            F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            for x, y in (batch(ids[cut:], held_out) for _ in range(20))
        ]
    means = [statistics.mean(losses[t : t + 10]) for t in range(0, STEPS, 10)]
    rise = max(mean - low for mean, low in zip(means, itertools.accumulate(means, min), strict=True))
    return round(float(torch.stack(final).mean()), 4), round(rise, 4)


def summary(runs):
    """Return for each number of heads: the loss and its spread over seeds, by rate, and means over the rates."""
    table = []
    for heads in HEADS:
        of_rate = [[run for run in runs if (run["heads"], run["rate"]) == (heads, rate)] for rate in RATES]
        losses = [[run["loss"] for run in cell] for cell in of_rate]
        spread = [statistics.stdev(cell) for cell in losses]
        setback = [statistics.mean(run["rise"] for run in cell) for cell in of_rate]
        table.append(
            {
                "heads": heads,
                "loss": [round(statistics.mean(cell), 4) for cell in losses],
                "spread": [round(value, 4) for value in spread],
                "mean_spread": round(statistics.mean(spread), 4),
                "mean_setback": round(statistics.mean(setback), 4),
            }
        )
    return table


if __name__ == "__main__":
    torch.set_num_threads(1)
    ids, num_characters = text()
    runs = []
    for rate, num_heads, seed in itertools.product(RATES, HEADS, SEEDS):
        loss, rise = train(ids, num_characters, num_heads, seed, rate)
        runs.append({"heads": num_heads, "seed": seed, "rate": rate, "loss": loss, "rise": rise})
        print(runs[-1], flush=True)
    setting = {"d_model": D_MODEL, "length": LENGTH, "batch": BATCH, "steps": STEPS, "layers": LAYERS, "rates": RATES}
    save(
        "heads_stability",
        {"setting": setting, "summary": summary(runs), "runs": runs},
        note="held-out loss in nats per character",
    )
