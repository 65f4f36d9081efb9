"""Causal linear attention: what came before is kept in a state of fixed size, not in keys and values.

Letters beside those of `dot_product`: n tokens, each with one query, key and value. There is no scale and no softmax:
whoever calls applies a feature map to q and k. `log_decay` is the logarithm of what a token leaves of the state
before: 0 leaves all (the default), −∞ nothing, as where a document begins; one number a head is (h, 1).
"""

import numpy as np

from mha import shapes
from mha.integers import count

FORGETS_ALL = -746.0  # e^x is 0: with less, or −∞, a sum would lose the digits of the others


def linear_attention(
    q: "Float[Array, '*b n d']",
    k: "Float[Array, '*b n d']",
    v: "Float[Array, '*b n e']",
    *,
    state=None,
    log_decay=None,
):
    """Add k vᵀ to the state, token by token, and read it with q: return the output and the last state (…, h, d, e).

    Katharopoulos et al. (2020); with a decay, Sun et al. (2023). A returned state continues the sequence.
    """
    q, k, v, state, log_decay = arguments(q, k, v, state, log_decay=log_decay)
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for t in range(q.shape[-2]):
        pair = k[..., t, :, None] * v[..., t, None, :]
        state = np.exp(log_decay[..., t, None, None]) * state + pair
        output[..., t, :] = np.einsum("...d,...de->...e", q[..., t, :], state)
    return output, state


def parallel_linear_attention(q, k, v, *, state=None, log_decay=None):
    """Return the same from all pairs of tokens at once: masked weights q·k without a softmax, times v."""
    q, k, v, state, log_decay = arguments(q, k, v, state, log_decay=log_decay)
    since, between, whole = decayed_since(log_decay)
    weights = np.einsum("...id,...jd->...ij", q, k) * np.exp(between)
    before = np.exp(since)[..., None] * np.einsum("...id,...de->...ie", q, state)
    left = np.exp(whole - since)
    after = np.exp(whole)[..., None] * state + np.einsum("...j,...jd,...je->...de", left, k, v)
    return before + np.einsum("...ij,...je->...ie", weights, v), after


def chunked_linear_attention(q, k, v, *, state=None, log_decay=None, chunk=64):
    """Return the same in chunks: all pairs within one, and the state between them.   Book: {eq}`linear-chunk`."""
    q, k, v, state, log_decay = arguments(q, k, v, state, log_decay=log_decay)
    chunk = count("chunk", chunk, least=1)
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for start in range(0, q.shape[-2], chunk):
        part = slice(start, start + chunk)
        rows = (x[..., part, :] for x in (q, k, v))
        output[..., part, :], state = parallel_linear_attention(*rows, state=state, log_decay=log_decay[..., part])
    return output, state


def linear_average(q, k, v, *, state=None, log_decay=None):
    """Return the mean of the values, weighted by q·k, instead of their sum; 0 where the weights sum to 0.

    A column of ones behind v becomes that sum: the state is (…, h, d, e + 1).
    """
    v = shapes.float64("v", v)
    ones = np.ones((*v.shape[:-1], 1))
    both, state = linear_attention(q, k, np.concatenate([v, ones], -1), state=state, log_decay=log_decay)
    total = both[..., -1:]
    return np.where(total == 0, 0.0, both[..., :-1] / np.where(total == 0, 1.0, total)), state


def retention_log_decay(num_heads):
    """Return log γₕ, (h, 1), of γₕ = 1 − 2⁻⁵⁻ʰ, h = 0, 1, …: the fixed `log_decay` of each head of a retention.

    Sun et al. (2023), section 2.2. A head remembers for about 2⁵⁺ʰ tokens. The scaling and the group norm of their
    layer are not part of it.
    """
    num_heads = count("num_heads", num_heads, least=1)
    return np.log1p(-(2.0 ** (-5.0 - np.arange(num_heads))))[:, None]


def arguments(q, k, v, state, **by_token):
    """Return the arguments in float64 with equal leading axes: no state is zeros, no decay its logarithm 0."""
    lead = shapes.check_linear(q, k, v, state, **by_token)
    sizes = shapes.linear_sizes(q, v)
    arrays = []
    for name, x in {"q": q, "k": k, "v": v, "state": state, **by_token}.items():
        x = np.zeros(()) if x is None else shapes.float64(name, x)
        x = np.maximum(x, FORGETS_ALL) if name.startswith("log_") else x
        arrays.append(np.broadcast_to(x, (*lead, *sizes[name])))
    return arrays


def decayed_since(log_decay):
    """Return the logarithms of what is left since the beginning, between all pairs of tokens, and of the whole."""
    n = log_decay.shape[-1]
    since = np.cumsum(log_decay, -1)
    between = np.where(np.tri(n, dtype=bool), since[..., :, None] - since[..., None, :], -np.inf)
    return since, between, since[..., -1:] if n else np.zeros((*since.shape[:-1], 1))
