"""What pattern a head follows, as one number per head.

Each function takes weights (…, i, j), queries down and keys across, of self-attention over one sequence, and returns
one number for each leading index; for a single map, one number.
"""

import numpy as np

from mha.integers import integer


def previous_token_score(weights: "Float[Array, '*b i j']") -> "Float[Array, '*b']":
    """Return the mean weight on the previous token, A[i, i−1], over rows i ≥ 1.   Book: {eq}`previous-token-score`.

    Row 0 has no previous token and is left out. Previous-token heads: Voita et al. (2019), Elhage et al. (2021).
    """
    return _mean_on_diagonal(weights, back=1, first_row=1)


def induction_score(weights: "Float[Array, '*b i j']", period: int) -> "Float[Array, '*b']":
    """Return the mean weight on the token that followed the last occurrence.   Book: {eq}`induction-score`.

    The sequence repeats with this period, so row i ≥ period looks at A[i, i − period + 1]: the token after the one
    that equals the current one. Rows before the first repetition are left out. Olsson et al. (2022).
    """
    n, period = _square(weights).shape[-1], integer("period", period)
    if not 1 < period < n:
        raise ValueError(f"period is {period}: expected more than 1 and less than the length {n}")
    return _mean_on_diagonal(weights, back=period - 1, first_row=period)


def sink_score(weights: "Float[Array, '*b i j']") -> "Float[Array, '*b']":
    """Return the mean weight on the first token, A[i, 0], over rows i ≥ 1.   Book: {eq}`sink-score`.

    Row 0 is left out: under a causal mask it has no other choice. Attention sinks: Xiao et al. (2024).
    """
    return _square(weights)[..., 1:, 0].mean(-1)


def attention_distance(weights: "Float[Array, '*b i j']") -> "Float[Array, '*b']":
    """Return how far back or ahead a head looks on average, in tokens.   Book: {eq}`attention-distance`.

    The distance of i and j is averaged with the weights of row i, each row divided by its sum first, and then over the
    rows; rows that see no key are left out, and a map without any other row gives 0. A causal head that spreads its
    weights evenly has (n − 1)/4. Without a sink: `attention_distance(weights[..., 1:, 1:])`. Of the heads of a GPT
    Vig and Belinkov (2019), of a ViT Dosovitskiy et al. (2021).
    """
    weights = _square(weights)
    positions = np.arange(weights.shape[-1])
    apart = abs(positions[:, None] - positions)
    total = weights.sum(-1)
    rows = (weights * apart).sum(-1) / np.where(total == 0, 1.0, total)
    return rows.sum(-1) / np.maximum((total > 0).sum(-1), 1)


def entropy(weights: "Float[Array, '*b i j']") -> "Float[Array, '*b']":
    """Return the mean entropy of the rows in nats: 0 for one key, log n for n equal weights.

    Each row is divided by its sum first (a sink may have taken a part); rows that see no key are left out, and a map
    without any other row gives 0. Queries and keys may come from two sequences.
    """
    rows = row_entropies(weights)
    seen = (np.asarray(weights).sum(-1) > 0).sum(-1)
    return rows.sum(-1) / np.maximum(seen, 1)


def row_entropies(weights: "Float[Array, '*b i j']") -> "Float[Array, '*b i']":
    """Return the entropy of each row in nats, divided by its sum first; 0 for a row that sees no key."""
    weights = _maps(weights)
    total = weights.sum(-1, keepdims=True)
    p = weights / np.where(total == 0, 1.0, total)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1) + 0.0  # + 0.0: never −0


def _mean_on_diagonal(weights, back, first_row):
    rows = np.arange(first_row, _square(weights).shape[-1])
    return np.asarray(weights, np.float64)[..., rows, rows - back].mean(-1)


def _maps(weights):
    weights = np.asarray(weights, np.float64)
    if weights.ndim < 2:
        raise ValueError(f"weights has shape {weights.shape}: expected (…, i, j), a map or more")
    if not (weights >= 0).all():
        raise ValueError("weights holds negative numbers or NaN: expected attention weights, 0 or more; not scores")
    return weights


def _square(weights):
    weights = np.asarray(weights, np.float64)
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2] or weights.shape[-1] < 2:
        raise ValueError(f"weights has shape {weights.shape}: expected (…, n, n), one sequence of at least 2 tokens")
    return _maps(weights)
