"""The scores of one tile, as the forward and the backward kernels need them, in base 2.

    how = (b, h, start, n_q, n_k, scale, cap, bias, bias_i, bias_j, p, added_p)
    s = scores(products, i, j, how, rule, added, PARTIAL, WIDE)                   # products = q·k of the tile, float32

A score here is log₂e times the score of the reference, so that exp2 is the exponential; −inf where the query may not
see the key. `i` and `j` are the slots of queries and keys, along any two axes: (BM, 1) and (1, BN) forward, (1, BM) and
(BN, 1) where keys are the rows of a tile. The order is scale → cap → bias → mask. A backward kernel takes the two
halves by themselves: `capped`, `placed`, and `cap_slope` of what `capped` gave.

`how`, all scalars unless told, is what a launch knows; of these a `None` costs nothing:

    b, h            the sample and the query head
    start           the position of the query in slot 0
    n_q, n_k        how many queries and keys there are
    scale, cap      see `base_2` of problem.py; cap is None without a softcap
    bias            pointer to the bias of (b, h), strides bias_i and bias_j; None without one
    p, added_p      the tables (tuples) of `rule` and of `added`

`rule` is the mask's and `added` a BiasRule's function, constants of the kernel; None if there is none.
"""

import triton
import triton.language as tl

from mha.kernels.language import LOG2_E, load, rows_at, tanh

__all__ = ["cap_slope", "capped", "placed", "scores"]


@triton.jit
def scores(products, i, j, how, rule: tl.constexpr, added: tl.constexpr, PARTIAL: tl.constexpr, WIDE: tl.constexpr):
    """Return the scores of a tile; −inf where a query may not see a key. Only a PARTIAL tile asks the mask."""
    return placed(capped(products, how), i, j, how, rule, added, PARTIAL, WIDE)


@triton.jit
def capped(products, how):
    """Return the products scaled and capped."""
    _, _, _, _, _, scale, cap, _, _, _, _, _ = how
    s = products * scale
    if cap is not None:
        s = cap * tanh(s)
    return s


@triton.jit
def cap_slope(s, how):
    """Return the derivative of a capped score by the score before the cap; `s` is what `capped` gave."""
    _, _, _, _, _, _, cap, _, _, _, _, _ = how
    slope = 1.0
    if cap is not None:
        slope = 1.0 - (s / cap) * (s / cap)
    return slope


@triton.jit
def placed(s, i, j, how, rule: tl.constexpr, added: tl.constexpr, PARTIAL: tl.constexpr, WIDE: tl.constexpr):
    """Return scores with the bias added, and −inf where the bias or, in a PARTIAL tile, the mask hides the key."""
    b, h, start, n_q, n_k, _, _, bias, bias_i, bias_j, p, added_p = how
    inside = (i < n_q) & (j < n_k)
    if bias is not None:
        at = bias + rows_at(i, bias_i, 1, WIDE) + rows_at(j, bias_j, 1, WIDE)
        given = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        s = tl.where(given == float("-inf"), given, s + given * LOG2_E)
    query, key = start + tl.minimum(i, n_q - 1), tl.minimum(j, n_k - 1)  # no table is read past its end
    if added is not None:
        given = added(load, b, h, query, key, added_p).to(tl.float32)
        s = tl.where(given == float("-inf"), given, s + given * LOG2_E)
    if PARTIAL:
        see = inside
        if rule is not None:
            see = see & rule(load, b, h, query, key, p)
        s = tl.where(see, s, float("-inf"))
    return s
