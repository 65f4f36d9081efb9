"""What a model refuses of the tokens that it is given, and where they stand."""

import torch

from mha.nn import checks
from mha.nn.modes import readable

__all__ = ["check_caches", "check_length", "check_tokens", "places"]


def check_tokens(name, tokens, vocab_size):
    """Raise unless these are tokens (batch, length) of a vocabulary."""
    checks.integers(name, tokens)
    if tokens.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}: expected (batch, length); tokens[None] is a batch")
    if tokens.numel() and tokens.device.type == "cpu" and readable(tokens):
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= vocab_size:
            raise ValueError(f"{name} holds {low if low < 0 else high}: expected 0 to {vocab_size - 1}, the vocabulary")


def check_length(name, length, most):
    """Raise if there are more tokens than the model has positions."""
    if length > most:
        raise ValueError(f"{name} has length {length}: expected at most {most}, the max_length of the model")


def check_caches(caches, blocks):
    """Raise unless there is a cache for each block."""
    if len(caches) != len(blocks):
        raise ValueError(f"caches has {len(caches)} entries: expected {len(blocks)}, one a layer")


def places(tokens, keep=None):
    """Return where tokens stand: 0, 1, 2, … of those that are real, (length,) or one row per sample."""
    if keep is None:
        return torch.arange(tokens.shape[-1], device=tokens.device)
    return (keep.cumsum(-1) - 1).clamp(min=0)
