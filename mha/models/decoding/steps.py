"""Continue a text: read it once, then add token after token, each from its own row and the caches."""

import torch

from mha import shapes
from mha.integers import count
from mha.models.decoding.sampling import most_probable

__all__ = ["generate", "stream"]


def generate(model, tokens, steps, *, padding=0, stop=None, sampling=None):
    """Return `tokens` (batch, length) and `steps` more, the most probable ones or drawn: (batch, length + steps).

    `model` has `caches` and `step`, as `Llama` has. `padding` is the number of tokens in front that do not count, one
    or (batch,). A sequence that has said the token `stop` repeats it, and when all have, nothing more is added.
    """
    new = stream(model, tokens, steps, padding=padding, stop=stop, sampling=sampling)
    return torch.cat([tokens, *(column[:, None] for column in new)], 1)


def stream(model, tokens, steps, *, padding=0, stop=None, sampling=None):
    """Return an iterator over what `generate` adds, as soon as it is there: a token of each sequence, (batch,)."""
    check_start(tokens)
    choose = most_probable if sampling is None else sampling.drawer()
    return _steps(model, tokens, count("steps", steps), padding, stop, choose)


@torch.inference_mode()
def _steps(model, tokens, steps, padding, stop, choose):
    caches, done = model.caches(padding), torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    for _ in range(steps):
        logits, caches = model.step(tokens, caches, last=True)
        new = choose(logits[:, -1])
        if stop is not None:
            new = new.masked_fill(done, stop)
            done = done | (new == stop)
        yield new
        if stop is not None and bool(done.all()):
            return
        tokens = new[:, None]


def check_start(tokens):
    """Raise unless there is a token in each row, for the first new one to follow."""
    shapes.check_rank("tokens", tokens, ("batch", "length"))
    if tokens.shape[-1] == 0:
        raise ValueError(f"tokens has shape {tuple(tokens.shape)}: expected a token at least, for the first to follow")
