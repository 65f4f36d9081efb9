"""A small character model on Moby Dick whose position scheme can be exchanged, its training and its losses.

Small is meant: two layers, 64 wide, read in stretches of 64 characters.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from mha import masks, nn
from mha.data import load

D_MODEL, HEADS, LAYERS, LENGTH, BATCH, WARM_UP, HELD_OUT = 64, 4, 2, 64, 32, 50, 32768


class Scheme(NamedTuple):
    """What a scheme gives to each layer, what it adds to the characters, and where it ends."""

    in_layer: Callable[[], Any] = lambda: None
    added: Callable[[], Any] = torch.nn.Identity
    longest: int | None = None


class Block(torch.nn.Module):
    """Attention, then a feed-forward layer, each with a norm before and a residual around it."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiHeadAttention(D_MODEL, HEADS)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(D_MODEL, 4 * D_MODEL), torch.nn.GELU(), torch.nn.Linear(4 * D_MODEL, D_MODEL)
        )
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(D_MODEL) for _ in range(2))

    def forward(self, x, mask):
        x = x + self.attend(self.norms[0](x), mask=mask)
        return x + self.feed(self.norms[1](x))


class Model(torch.nn.Module):
    """Characters in, logits of the next character out. The scheme's own weights are drawn last."""

    def __init__(self, scheme, num_characters):
        super().__init__()
        self.characters = torch.nn.Embedding(num_characters, D_MODEL)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.read = torch.nn.Sequential(torch.nn.LayerNorm(D_MODEL), torch.nn.Linear(D_MODEL, num_characters))
        self.added = scheme.added()
        for block in self.blocks:
            block.attend.position = scheme.in_layer()
            block.attend.scale = getattr(block.attend.position, "scale", None)  # DeBERTa's has one for three terms

    def forward(self, ids, mask=masks.causal):
        x = self.added(self.characters(ids))
        for block in self.blocks:
            x = block(x, mask)
        return self.read(x)


def text():
    """Return the book as character ids, to train on and held out, and the number of characters."""
    book = "\n".join(load("moby_dick")["text"])
    number = {c: n for n, c in enumerate(sorted(set(book)))}
    ids = torch.tensor([number[c] for c in book])
    cut = len(ids) * 9 // 10
    return ids[:cut], ids[cut : cut + HELD_OUT + 1], len(number)


def train(scheme, seed, rate, steps, ids, num_characters):
    """Return the trained model, and the mean training loss of its last 50 steps."""
    torch.manual_seed(seed)
    model = Model(scheme, num_characters)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for step in range(steps):
        warm, cool = min(1.0, (step + 1) / WARM_UP), (1 + math.cos(math.pi * step / steps)) / 2
        optimiser.param_groups[0]["lr"] = rate * warm * cool
        starts = torch.randint(len(ids) - LENGTH, (BATCH,), generator=generator)
        rows = ids[starts[:, None] + torch.arange(LENGTH + 1)]
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return model, sum(losses[-50:]) / len(losses[-50:])


@torch.inference_mode()
def losses(model, held_out, length, mask=masks.causal):
    """Return the loss at each place of a window of this length, averaged over the windows: (length,)."""
    count = (len(held_out) - 1) // length * length
    inputs, targets = held_out[:count].view(-1, length), held_out[1 : count + 1].view(-1, length)
    size = max(1, 4096 // length)
    pairs = zip(inputs.split(size), targets.split(size), strict=True)
    return torch.cat([F.cross_entropy(model(x, mask).mT, y, reduction="none") for x, y in pairs]).mean(0)
