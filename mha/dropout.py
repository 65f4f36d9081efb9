"""Dropout as a value: the probability, the seed, and the same random bits on every floor.

The bits are Philox 4x32-10 (Salmon et al., 2011), a counter turned into random words by ten rounds of integer
products: no state, so any weight's fate can be computed alone, in any order, in any library.
"""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from mha.integers import count, is_integral

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
WORD = 0xFFFFFFFF
UNIFORM_SCALE = np.float32(4.6566127342e-10)  # the largest float32 that keeps 2³¹ − 1 times it below 1; Triton's choice


@dataclass(frozen=True)
class Dropout:
    """Drop each attention weight with probability p and divide the rest by 1 − p.

    The weight at linear index `offset` in (b, h, i, j) is kept where `uniform(seed, offset) > p`, which is
    Triton's `tl.rand(seed, offset) > p` bit for bit. Give each call its own seed.
    """

    p: float
    seed: int  # or an integer tensor without axes: so torch.compile can draw it in the graph

    def __post_init__(self):
        if isinstance(self.p, bool) or not isinstance(self.p, Real):
            raise TypeError(f"p is {self.p!r}: expected a number, the probability of dropping a weight")
        if not 0 <= self.p < 1:
            raise ValueError(f"p is {self.p}: expected 0 ≤ p < 1, the probability of dropping a weight")
        is_tensor = hasattr(self.seed, "detach") and self.seed.ndim == 0 and is_integral(self.seed)
        seed = self.seed.long() if is_tensor else count("seed", self.seed)
        object.__setattr__(self, "seed", seed)  # of 64 bits, as the products of Philox need

    def kept(self, shape):
        """Return a boolean array of this shape (b, h, i, j): True = this weight is kept."""
        offsets = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
        return uniform(int(self.seed), offsets) > np.float32(self.p)

    def factors(self, shape):
        """Return what the weights are multiplied by: 0, or 1 / (1 − p)."""
        return self.kept(shape) / (1 - self.p)


def philox(counter, key):
    """Return the four random words of a counter of four 32-bit words and a key of two, ten rounds of Philox 4x32."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(10):
        product0, product2 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2  # 32 × 32 → 64 bits
        c0, c1 = (product2 >> 32) ^ c1 ^ k0, product2 & WORD
        c2, c3 = (product0 >> 32) ^ c3 ^ k1, product0 & WORD
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return c0, c1, c2, c3


def uniform(seed, offsets):
    """Return one float32 in [0, 1) for each offset: the first word of Philox, as Triton's `tl.rand` makes it."""
    seed, offsets = int(seed), np.asarray(offsets, np.uint64)
    word, *_ = philox((offsets & WORD, offsets >> 32, 0, 0), (seed & WORD, seed >> 32))
    signed = word.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * UNIFORM_SCALE
