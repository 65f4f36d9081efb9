"""Do choices by content find what a fixed pattern of as many pairs cannot?   python benchmarks/learned_sparsity.py

Associative recall in one layer: every token shows a random key and one of 16 values, and asks for the value of the
token whose key it names; that token stands anywhere in the sequence. Who compares itself with 48 of 256 tokens by a
fixed pattern meets the answer three times in sixteen, whatever is learned. Keys are drawn anew for every sequence, so
nothing but looking helps. "reached" is the share of answers among the pairs that a query may read, one by one.
"""

from functools import partial

import torch
import torch.nn.functional as F
from provenance import save
from torch import nn

from mha import masks
from mha.nn import (
    BlockSelection,
    MultiHeadAttention,
    Routing,
    attention,
    chosen_blocks,
    cluster_members,
    top_k_attention,
    top_keys,
)

N, WIDTH, VALUES = 256, 32, 16
BATCH, STEPS, RATE, SEEDS = 8, 500, 1e-2, range(3)
KEYS, CLUSTERS, MEMBERS, BLOCK, BLOCKS = 48, 16, 27, 8, 2
MASKS = {
    "window": masks.window(KEYS // 2, KEYS // 2 - 1),
    "window and stride": masks.window(KEYS // 4, KEYS // 4 - 1) | masks.strided(N * 2 // KEYS),
}
CORES = {
    "top-k": lambda: partial(top_k_attention, num_keys=KEYS),
    "routing": lambda: Routing(1, WIDTH, num_clusters=CLUSTERS, cluster_size=MEMBERS, decay=0.95),
    "blocks": lambda: BlockSelection(1, WIDTH, block_size=BLOCK, num_blocks=BLOCKS),
}
PAIRS = {
    "dense": N,
    **{name: mask.pairs(N, N) / N for name, mask in MASKS.items()},
    "top-k": KEYS,
    "routing": CLUSTERS * MEMBERS**2 / N,
    "blocks": N // BLOCK + BLOCKS * BLOCK,
}


class Recall(nn.Module):
    """One head of attention over tokens (key, question, value), and a linear readout."""

    def __init__(self, pattern):
        super().__init__()
        d_model = 2 * WIDTH + VALUES
        core = CORES.get(pattern, lambda: attention)()
        self.attend = MultiHeadAttention(d_model, 1, d_head=WIDTH, core=core)
        self.read = nn.Linear(d_model, VALUES)
        self.mask = MASKS.get(pattern)

    def forward(self, x):
        return self.read(self.attend(x, mask=self.mask))


def sequences(number, generator):
    """Return tokens (number, N, d_model), the values asked for, and where they stand."""
    keys = torch.randn(number, N, WIDTH, generator=generator)
    values = torch.randint(VALUES, (number, N), generator=generator)
    where = torch.rand(number, N, generator=generator).argsort(-1)
    asked = keys.gather(1, where[..., None].expand_as(keys))
    return torch.cat([keys, asked, F.one_hot(values, VALUES)], -1), values.gather(1, where), where


def read_pairs(pattern, model, x):
    """Tell which keys each query reads one by one: what attention over means sees does not count."""
    q, k, _ = model.attend.project(x)
    if pattern == "top-k":
        return top_keys(q, k, num_keys=KEYS)[:, 0]
    if pattern == "routing":
        asking, asked = (
            cluster_members(y, model.attend.core.centroids, cluster_size=MEMBERS)[:, 0].float() for y in (q, k)
        )
        return asking.mT @ asked > 0
    if pattern == "blocks":
        chosen = chosen_blocks(q, k, block_size=BLOCK, num_blocks=BLOCKS)[:, 0]
        return (chosen[..., None] == torch.arange(N) // BLOCK).any(-2)
    see = torch.ones(N, N, dtype=torch.bool) if model.mask is None else torch.as_tensor(model.mask.dense(N, N))
    return see.expand(len(x), N, N)


def train(pattern, seed):
    """Return how a model does on fresh sequences after its training."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Recall(pattern)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        x, answers, _ = sequences(BATCH, generator)
        loss = F.cross_entropy(model(x).flatten(0, 1), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        x, answers, where = sequences(4 * BATCH, torch.Generator().manual_seed(1000 + seed))
        right = (model(x).argmax(-1) == answers).float().mean()
        reached = read_pairs(pattern, model, x).gather(-1, where[..., None]).float().mean()
    return {"accuracy": round(float(right), 3), "reached": round(float(reached), 3)}


def main():
    torch.set_num_threads(1)
    found = {}
    for pattern in PAIRS:
        runs = [train(pattern, seed) for seed in SEEDS]
        found[pattern] = {"pairs_per_query": round(PAIRS[pattern], 1), "runs": runs}
        print(pattern, found[pattern], flush=True)
    setting = {"tokens": N, "width": WIDTH, "values": VALUES, "steps": STEPS, "batch": BATCH, "rate": RATE}
    setting |= {"keys": KEYS, "clusters": CLUSTERS, "members": MEMBERS, "block_size": BLOCK, "blocks": BLOCKS}
    save("learned_sparsity", {"setting": setting | {"seeds": len(SEEDS)}, "patterns": found})


if __name__ == "__main__":
    main()
