"""Gated linear attention: a state whose every row, one a key channel, fades at a speed that each token chooses.

`log_gate` (…, h, n, d) is the logarithm of what a token leaves of each row of the state before: 0 all, −∞ nothing.
Where it is the same in all channels this is `linear_attention` with a `log_decay`.
"""

import numpy as np

from mha.integers import count
from mha.reference.linear.recurrent import arguments


def gated_linear_attention(
    q: "Float[Array, '*b n d']",
    k: "Float[Array, '*b n d']",
    v: "Float[Array, '*b n e']",
    log_gate,
    *,
    state=None,
):
    """Let every row of the state fade, add k vᵀ, read it with q: return the output and the last state (…, h, d, e).

    Yang et al. (2024), equation 4. A returned state continues the sequence.   Book: {eq}`linear-gate`.
    """
    q, k, v, state, log_gate = arguments(q, k, v, state, log_gate=log_gate)
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for t in range(q.shape[-2]):
        pair = k[..., t, :, None] * v[..., t, None, :]
        state = np.exp(log_gate[..., t, :, None]) * state + pair
        output[..., t, :] = np.einsum("...d,...de->...e", q[..., t, :], state)
    return output, state


def parallel_gated_linear_attention(q, k, v, log_gate, *, state=None):
    """Return the same from all pairs of tokens at once, channel by channel: n² · d products, and no exponent > 0.

    The quotient of two cumulated gates is one exponential of a difference: apart, one of them would overflow (Yang et
    al., 2024, section 4.2).
    """
    q, k, v, state, log_gate = arguments(q, k, v, state, log_gate=log_gate)
    n = q.shape[-2]
    since = np.cumsum(log_gate, -2)
    earlier = np.tri(n, dtype=bool)[..., None]
    between = np.where(earlier, since[..., :, None, :] - since[..., None, :, :], -np.inf)
    weights = np.einsum("...id,...jd,...ijd->...ij", q, k, np.exp(between))
    whole = since[..., -1:, :] if n else np.zeros((*since.shape[:-2], 1, since.shape[-1]))
    before = np.einsum("...id,...de->...ie", q * np.exp(since), state)
    added = np.einsum("...jd,...je->...de", k * np.exp(whole - since), v)
    after = np.exp(np.swapaxes(whole, -1, -2)) * state + added
    return before + np.einsum("...ij,...je->...ie", weights, v), after


def chunked_gated_linear_attention(q, k, v, log_gate, *, state=None, chunk=64):
    """Return the same in chunks: all pairs within one, and the state between them."""
    q, k, v, state, log_gate = arguments(q, k, v, state, log_gate=log_gate)
    chunk = count("chunk", chunk, least=1)
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for start in range(0, q.shape[-2], chunk):
        part = slice(start, start + chunk)
        rows = (x[..., part, :] for x in (q, k, v, log_gate))
        output[..., part, :], state = parallel_gated_linear_attention(*rows, state=state)
    return output, state
