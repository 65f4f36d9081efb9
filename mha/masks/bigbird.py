"""BigBird's pattern as its authors run it, in blocks: a band of three, two that see all, and some drawn at random."""

import numpy as np

from mha.dropout import philox
from mha.integers import count, integers
from mha.masks.listed import in_blocks

__all__ = ["big_bird", "big_bird_plan"]

NEAR = 1  # blocks on either side


def big_bird(n, *, block, plan):
    """See one's own block of `block` positions and its neighbours, the first block, the last, and those of the plan;
    the first block and the last see everything (Zaheer et al., 2020).

    `plan` is (heads, blocks − 2, r): the r blocks of keys drawn by each block of queries but the first and the last.
    `big_bird_plan` draws one, and the released code another. With elements in place of blocks, the pattern is
    `window(w, w) | global_tokens(positions) | random_blocks(…)`.
    """
    n, block = count("n", n), count("block", block, least=1)
    blocks = -(-n // block)
    plan = np.asarray(plan)
    if plan.ndim != 3 or plan.shape[1] != max(0, blocks - 2):
        raise ValueError(
            f"plan has shape {plan.shape}: expected (heads, {max(0, blocks - 2)}, number) for {blocks} blocks"
        )
    integers("plan", plan, "the indices of blocks")
    if plan.size and not 0 <= plan.min() <= plan.max() < blocks:
        raise ValueError(f"plan holds {plan.min()} to {plan.max()}: expected blocks from 0 to {blocks - 1}")
    see = np.broadcast_to(_without_draws(blocks), (1, len(plan), blocks, blocks)).copy()
    np.put_along_axis(see[0, :, 1:-1], plan, True, axis=-1)
    return in_blocks(see, block)


def big_bird_plan(seed, n, *, block, number, num_heads=1):
    """Draw `number` blocks of keys for each head and each block of queries but the first and the last, among those
    that the rest of the pattern hides: (heads, blocks − 2, number). The seed decides, as in `random_blocks`."""
    seed, n, block = count("seed", seed), count("n", n), count("block", block, least=1)
    blocks, number, num_heads = -(-n // block), count("number", number), count("num_heads", num_heads, least=1)
    most = max(0, blocks - 2 * NEAR - 3)
    if number > most:
        raise ValueError(
            f"number is {number}: expected at most {most}, for a row of {blocks} blocks that shows a band of "
            f"{2 * NEAR + 1}, the first and the last"
        )
    rank, *_ = philox((np.arange(num_heads * blocks * blocks), 0, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))
    rank = np.where(_without_draws(blocks), 2**32, np.reshape(rank, (num_heads, blocks, blocks)).astype(np.int64))
    return np.argsort(rank, axis=-1, kind="stable")[:, 1:-1, :number]


def _without_draws(blocks):
    """Return which blocks the band and the two global blocks show."""
    place = np.arange(blocks)
    is_global = (place == 0) | (place == blocks - 1)
    return (np.abs(place[:, None] - place) <= NEAR) | is_global[:, None] | is_global
