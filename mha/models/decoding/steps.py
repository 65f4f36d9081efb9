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
    check_start(tokens, padding)
    choose, stop = most_probable if sampling is None else sampling.drawer(), check_stop(stop)
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


def check_start(tokens, padding):
    """Raise unless each row ends with a token that counts, for the first new one to follow."""
    shapes.check_rank("tokens", tokens, ("batch", "length"))
    if tokens.shape[-1] == 0:
        raise ValueError(f"tokens has shape {tuple(tokens.shape)}: expected a token at least, for the first to follow")
    front, (samples, length) = torch.as_tensor(padding), tokens.shape
    if front.shape not in ((), (samples,)):
        raise ValueError(f"padding has shape {tuple(front.shape)}: expected one number, or ({samples},)")
    if bool(((front < 0) | (front >= length)).any()):
        raise ValueError(f"padding is {padding}: expected 0 to {length - 1}, so that each row keeps a token")


def check_stop(stop):
    """Return the stop token as a number, or None; raise if it is something else."""
    return None if stop is None else count("stop", stop)
