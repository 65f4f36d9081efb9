"""How the next token is drawn."""

from dataclasses import dataclass

import numpy as np
import torch

from mha.integers import count
from mha.reference.sampling import check_sampling, draw_tokens, next_token_probabilities

__all__ = ["Sampling"]


@dataclass(frozen=True)
class Sampling:
    """Draw from the probabilities at a temperature, cut to `top_k`, `top_p` and `min_p`, in this order.

    See `mha.reference.sampling`, which draws, on the CPU and in float64. Equal seeds draw equal tokens from equal
    logits; the row of a batch counts: one text in two rows goes on in two ways.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0

    def __post_init__(self):
        check_sampling(self.temperature, self.top_k, self.top_p, self.min_p)
        count("seed", self.seed)

    def probabilities(self, logits):
        """Return with which probability each token comes next, as an array: (…, vocabulary)."""
        options = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        return next_token_probabilities(logits.detach().double().cpu().numpy(), **options)

    def drawer(self):
        """Return a function that draws a token for each row of logits (batch, vocabulary): (batch,)."""
        random = np.random.default_rng(self.seed)

        def next_tokens(logits):
            tokens = draw_tokens(self.probabilities(logits), random.random(len(logits)))
            return torch.from_numpy(tokens).to(logits.device)

        return next_tokens


def most_probable(logits):
    """Return the most probable token of each row of logits, the first one of equals."""
    return logits.argmax(-1)
