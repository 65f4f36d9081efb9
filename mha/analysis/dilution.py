"""How thin a softmax spreads: the weight of one right key, and of the luckiest of many that mean nothing.

Scores are Gaussian with standard deviation `spread`, in nats: as they stand in the softmax, the scale applied.
"""

import math
from statistics import NormalDist

from mha.integers import integer

__all__ = ["largest_weight", "needle_margin", "needle_weight"]

NORMAL = NormalDist()


def needle_weight(n: int, margin: float, spread: float = 0.0) -> float:
    """Return the weight of one key among n whose score lies `margin` above the mean.   Book: {eq}`needle-weight`.

    The other n − 1 scores are spread around their mean, so one of them counts exp(spread² / 2) on average. For many
    keys that is what they count together, as long as spread < √(2 ln n); beyond, a few of them decide.
    """
    if _checked(n, spread) == 1:
        return 1.0
    ahead = margin - spread**2 / 2 - math.log(n - 1)  # of all others together, in nats
    return 1 / (1 + math.exp(-ahead)) if ahead > 0 else math.exp(ahead) / (1 + math.exp(ahead))


def needle_margin(n: int, share: float = 0.5, spread: float = 0.0) -> float:
    """Return the margin at which one key among n has this share of the weight.   Book: {eq}`needle-margin`."""
    if _checked(n, spread) < 2:
        raise ValueError(f"n is {n}: expected at least 2, a key alone has all of the weight whatever its margin")
    if not 0 < share < 1:
        raise ValueError(f"share is {share}: expected a number between 0 and 1, both excluded")
    return math.log(n - 1) + spread**2 / 2 + math.log(share / (1 - share))


def largest_weight(n: int, spread: float) -> float:
    """Return the largest of n weights whose scores mean nothing, as it typically is.   Book: {eq}`largest-weight`.

    The highest of n scores is put at its median, and the others count what n − 1 scores below it count on average.
    From n = 64 on, within a tenth of the median of draws, for spreads up to 4. Its two phases, on either side of
    spread = √(2 ln n), are those of the random energy model (Derrida 1981).
    """
    n = _checked(n, spread, most=30)
    if n == 1:
        return 1.0
    top = NORMAL.inv_cdf(0.5 ** (1 / n))
    one = math.exp(spread**2 / 2) * NORMAL.cdf(top - spread) / NORMAL.cdf(top)
    return 1 / (1 + (n - 1) * one * math.exp(-spread * top))


def _checked(n, spread, most=1000):
    n = integer("n", n)
    if not 1 <= n <= 10**15:
        raise ValueError(f"n is {n}: expected 1 to 10¹⁵ keys")
    if not 0 <= spread <= most:
        raise ValueError(f"spread is {spread}: expected 0 to {most} nats")
    return n
