"""Continue a text: read it once, then add token after token, each from its own row and the caches."""

import torch

from mha import shapes
from mha.integers import count

__all__ = ["generate"]


@torch.inference_mode()
def generate(model, tokens, steps, *, padding=0, stop=None):
    """Return `tokens` (batch, length) and `steps` more, always the most probable: (batch, length + steps).

    `model` has `caches` and `step`, as `Llama` has. `padding` is the number of tokens in front that do not count, one
    or (batch,). A sequence that has said the token `stop` repeats it, and when all have, nothing more is added.
    """
    shapes.check_rank("tokens", tokens, ("batch", "length"))
    if tokens.shape[-1] == 0:
        raise ValueError(f"tokens has shape {tuple(tokens.shape)}: expected a token at least, for the first to follow")
    text, caches, done = tokens, model.caches(padding), torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    for _ in range(count("steps", steps)):
        logits, caches = model.step(tokens, caches, last=True)
        tokens = logits[:, -1:].argmax(-1)
        if stop is not None:
            tokens = tokens.masked_fill(done[:, None], stop)
            done = done | (tokens[:, 0] == stop)
        text = torch.cat([text, tokens], 1)
        if stop is not None and bool(done.all()):
            break
    return text
