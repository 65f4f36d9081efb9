"""Recall at a distance: a task whose answers are known, a model of attention alone, and its training.

A list of twelve symbols, then a gap of other symbols, then the list is asked for. With one hop, each symbol of the list
carries its value, a question names the symbol, and the answer is the value: the question has only to find its like.
With two hops the list is said again, and the next symbol is asked for: it stands *after* the one that is like the
question, so one layer has to mark what comes before, and another to look for the mark (Olsson et al. 2022).
"""

import math

import torch
import torch.nn.functional as F

from mha import masks, nn

ITEMS, SYMBOLS, VALUES, OTHERS = 12, 32, 8, 16
NUM_TOKENS = SYMBOLS * (VALUES + 1) + OTHERS
D_MODEL, HEADS, BATCH, WARM_UP, TRAINED_GAP = 64, 4, 32, 50, 16
TRAINED_LENGTH = 2 * ITEMS + TRAINED_GAP


def examples(hops, count, gap, generator):
    """Return tokens (count, length) and the answers to the last of them (count, questions)."""
    listed = torch.rand(count, SYMBOLS, generator=generator).argsort(1)[:, :ITEMS]
    others = torch.randint(NUM_TOKENS - OTHERS, NUM_TOKENS, (count, gap), generator=generator)
    if hops == 2:
        return torch.cat([listed, others, listed[:, :-1]], 1), listed[:, 1:]
    values = torch.randint(VALUES, (count, ITEMS), generator=generator)
    order = torch.rand(count, ITEMS, generator=generator).argsort(1)
    tokens = torch.cat([SYMBOLS + VALUES * listed + values, others, listed.gather(1, order)], 1)
    return tokens, values.gather(1, order)


def log_length(q, k, v, **options):
    """Attend with queries that grow with the logarithm of the keys that they see (Chiang and Cholak 2022)."""
    seen = torch.arange(1, q.shape[-2] + 1, dtype=q.dtype)
    return nn.attention(q * (seen.log() / math.log(TRAINED_LENGTH))[:, None], k, v, **options)


SCHEMES = {
    "none": {},
    "log_length": {"core": log_length},
    "sinusoidal": {},
    "rotary": {"position": nn.Rotary},
    "alibi": {"position": lambda: nn.Alibi(HEADS)},
}


class Attention(torch.nn.Module):
    """Layers of attention alone, each with a norm before and a residual around it."""

    def __init__(self, scheme, num_layers):
        super().__init__()
        given = SCHEMES[scheme]
        options = {"core": given["core"]} if "core" in given else {}
        positions = given.get("position", lambda: None)
        self.layers = torch.nn.ModuleList(
            nn.MultiHeadAttention(D_MODEL, HEADS, position=positions(), **options) for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(D_MODEL) for _ in range(num_layers))
        self.places = nn.SinusoidalPositions(D_MODEL) if scheme == "sinusoidal" else torch.nn.Identity()

    def forward(self, x):
        x = self.places(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(norm(x), mask=masks.causal)
        return x


class Recurrent(torch.nn.Module):
    """Layers of a GRU, as wide."""

    def __init__(self, num_layers):
        super().__init__()
        self.gru = torch.nn.GRU(D_MODEL, D_MODEL, num_layers, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


class Model(torch.nn.Module):
    """Tokens to the logits of the answers at the last `count` places."""

    def __init__(self, scheme, num_layers):
        super().__init__()
        self.embed = torch.nn.Embedding(NUM_TOKENS, D_MODEL)
        self.body = Recurrent(num_layers) if scheme == "recurrent" else Attention(scheme, num_layers)
        self.read = torch.nn.Sequential(torch.nn.LayerNorm(D_MODEL), torch.nn.Linear(D_MODEL, SYMBOLS))

    def forward(self, tokens, count):
        return self.read(self.body(self.embed(tokens))[:, -count:])


def train(scheme, num_layers, hops, seed, rate, steps):
    """Return the trained model, and the mean loss of its last 50 steps; gaps are drawn up to the trained one."""
    torch.manual_seed(seed)
    model, generator, losses = Model(scheme, num_layers), torch.Generator().manual_seed(seed), []
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    for step in range(steps):
        warm, cool = min(1.0, (step + 1) / WARM_UP), (1 + math.cos(math.pi * step / steps)) / 2
        optimiser.param_groups[0]["lr"] = rate * warm * cool
        gap = int(torch.randint(TRAINED_GAP + 1, (1,), generator=generator))
        tokens, answers = examples(hops, BATCH, gap, generator)
        loss = F.cross_entropy(model(tokens, answers.shape[1]).flatten(0, 1), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return model.eval(), sum(losses[-50:]) / len(losses[-50:])


@torch.inference_mode()
def accuracy(model, hops, gap, count):
    """Return the share of right answers across a gap, on sequences that no training has seen."""
    tokens, answers = examples(hops, count, gap, torch.Generator().manual_seed(10**6))
    guesses = torch.cat([model(some, answers.shape[1]).argmax(-1) for some in tokens.split(16)])
    return round(float((guesses == answers).float().mean()), 4)
