"""Dropout on torch tensors: the same Philox bits as `mha.dropout`, in integer operations that compile."""

import torch

from mha.dropout import KEY_STEPS, MULTIPLIERS, UNIFORM_SCALE, WORD

__all__ = ["factors"]


def factors(dropout, shape, device, dtype):
    """Return what the weights of this shape are multiplied by: 0, or 1 / (1 − p)."""
    offsets = torch.arange(shape.numel(), device=device).reshape(shape)
    kept = _uniform(dropout.seed, offsets) > dropout.p
    return kept.to(dtype) / (1 - dropout.p)


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
