"""Dropout on torch tensors: the same Philox bits as `mha.dropout`, in integer operations."""

from collections.abc import Sequence

import torch

from mha.dropout import KEY_STEPS, MULTIPLIERS, UNIFORM_SCALE, WORD

__all__ = ["factors"]


def factors(dropout, shape, device, dtype):
    """Return what the weights of this shape are multiplied by: 0, or 1 / (1 − p)."""
    seed = dropout.seed
    if isinstance(seed, torch.Tensor):
        seed = seed.to(device, torch.int64)
    else:
        seed = torch.full((), int(seed), dtype=torch.int64, device=device)
    keep = _kept_whole if torch.compiler.is_compiling() else _kept
    return keep(seed, dropout.p, shape).to(dtype) / (1 - dropout.p)


def _kept(seed: torch.Tensor, p: float, shape: Sequence[int]) -> torch.Tensor:
    offsets = torch.arange(torch.Size(shape).numel(), device=seed.device).reshape(shape)
    return _uniform(seed, offsets) > p


# One node of a compiled graph: Inductor writes out ten rounds term by term, and each round doubles the terms.
_kept_whole = torch.library.custom_op("mha::kept", _kept, mutates_args=())


@_kept_whole.register_fake
def _(seed, p, shape):
    return torch.empty(shape, dtype=torch.bool, device=seed.device)


def _uniform(seed, offsets):
    word = _philox((offsets & WORD, offsets >> 32, 0, 0), (seed & WORD, seed >> 32))
    signed = torch.where(word >= 2**31, WORD - word, word)
    return signed.to(torch.float32) * float(UNIFORM_SCALE)


def _philox(counter, key):
    """Return the first random word of Philox 4x32-10, every word held in an int64."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        (high0, low0), (high2, low2) = _product(MULTIPLIERS[0], c0), _product(MULTIPLIERS[1], c2)
        c0, c1 = high2 ^ c1 ^ k0, low2
        c2, c3 = high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return c0


def _product(factor, word):
    """Return the high and low words of a 32 × 32 bit product, by halves so that no int64 overflows."""
    upper, lower = factor * (word >> 16), factor * (word & 0xFFFF)
    return (upper + (lower >> 16)) >> 16, (((upper & 0xFFFF) << 16) + lower) & WORD
