"""Masks that cut the sequence into blocks of equal length."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mha.dropout import philox
from mha.integers import count
from mha.masks.arrays import frozen
from mha.masks.base import Mask
from mha.text import say

__all__ = ["fixed", "random_blocks"]


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Mask):
    block: int
    summary: int

    @staticmethod
    def rule(at, b, h, i, j, block, summary):
        inside = (i >= 0) & (i // block == j // block)
        return (j >= 0) & (inside | (j % block >= block - summary))

    def numbers(self, seen, b, h, i, j):
        places = {"query": i // self.block, "key": j // self.block}
        if not seen:
            return say("masks.explain.fixed_hidden", **places, j=j, summary=self.summary)
        if places["query"] == places["key"]:
            return say("masks.explain.fixed_inside", block=places["key"])
        return say("masks.explain.fixed_summary", j=j, summary=self.summary, block=places["key"])

    def __repr__(self):
        return f"fixed({self.block}, {self.summary})"


@dataclass(frozen=True, eq=False, repr=False)
class RandomBlocks(Mask):
    seed: int
    n: int
    block: int
    number: int
    drawn: Any  # (query block, key block), flat

    @staticmethod
    def rule(at, b, h, i, j, drawn, block, per_side, period):
        row = ((i % period + period) % period) // block
        column = ((j % period + period) % period) // block
        return at(drawn, row * per_side + column)

    def params(self):
        per_side = _blocks(self.n, self.block)
        return self.drawn, self.block, per_side, per_side * self.block

    def numbers(self, seen, b, h, i, j):
        per_side = _blocks(self.n, self.block)
        places = {"query": i // self.block % per_side, "key": j // self.block % per_side}
        return say(f"masks.explain.drawn_{'visible' if seen else 'hidden'}", **places)

    def check(self, n_q, n_k, batch=1, num_heads=1):
        for name, number in (("queries", n_q), ("keys", n_k)):
            if number > self.n:
                raise ValueError(f"mask: random_blocks is drawn for n = {self.n} and there are {number} {name}")

    def __repr__(self):
        return f"random_blocks({self.seed}, {self.n}, block={self.block}, number={self.number})"


def fixed(block, summary=1):
    """See one's own block of `block` positions, and the last `summary` keys of every block.

    The fixed pattern of Child et al. (2019) is `causal & fixed(block, summary)`.
    """
    block, summary = count("block", block, least=1), count("summary", summary)
    if summary > block:
        raise ValueError(f"summary is {summary} and block is {block}: expected at most the block")
    return Fixed(block, summary)


def random_blocks(seed, n, *, block, number):
    """See, from each block of `block` queries, `number` blocks of keys that are drawn once and for all.

    The seed decides, by Philox as in `mha.dropout`: the draw is the same in every library. It is for sequences of up
    to n positions, and repeats beyond; each query block draws among all key blocks. BigBird's pattern (Zaheer et al.,
    2020) is `window(w, w) | global_tokens(positions) | random_blocks(seed, n, block=block, number=r)`; another seed
    for each head is `per_head`.
    """
    seed, n, block = count("seed", seed), count("n", n), count("block", block, least=1)
    number, blocks = count("number", number), _blocks(n, block)
    if number > blocks:
        raise ValueError(f"number is {number}: expected at most {blocks}, the blocks of {block} in {n} positions")
    words, *_ = philox((np.arange(blocks * blocks), 0, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))
    order = np.argsort(np.reshape(words, (blocks, blocks)), axis=-1, kind="stable")
    drawn = np.zeros((blocks, blocks), bool)
    np.put_along_axis(drawn, order[:, :number], True, axis=-1)
    return RandomBlocks(seed, n, block, number, frozen(drawn.reshape(-1)))


def _blocks(n, block):
    return max(1, -(-n // block))
