"""How large the steps are: AdamW, and the rate over time."""

import math

import torch

SCHEDULES = ("constant", "cosine", "inverse_sqrt")


def adamw(model, weight_decay):
    """Return AdamW (Loshchilov & Hutter 2019) with β₂ = 0.98 (Vaswani et al. 2017).

    Weights decay where they are matrices, embeddings among them, and not in biases and norms, as GPT-2 was trained.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, vectors = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], betas=(0.9, 0.98))


def learning_rate(step, rate, *, warmup, schedule, steps):
    """Return the rate of a step, counted from 0: a linear rise over `warmup` steps, then what the schedule says.

    "constant" stays at `rate`; "cosine" falls by half a wave to 0 at `steps` (Loshchilov & Hutter 2017);
    "inverse_sqrt" falls as rate · √(warmup / step) (Vaswani et al. 2017).
    """
    if step < warmup:
        return rate * (step + 1) / warmup
    if schedule == "cosine":
        return rate * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
    return rate * math.sqrt(max(1, warmup) / (step + 1)) if schedule == "inverse_sqrt" else rate
