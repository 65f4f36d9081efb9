"""The delta rule: a token does not add its value to what its key finds in the state, but corrects it.

`beta` (…, h, n) in (0, 1] says by how much: with 1 and a key of norm 1, what was stored under the key is replaced.
Keys of norm 1 are the caller's duty: with β|k|² > 2 the correction overshoots and the state grows. With a `log_decay`
this is the gated delta rule.
"""

import numpy as np

from mha.integers import count
from mha.reference.linear.recurrent import arguments, decayed_since


def delta_rule(
    q: "Float[Array, '*b n d']",
    k: "Float[Array, '*b n d']",
    v: "Float[Array, '*b n e']",
    beta,
    *,
    state=None,
    log_decay=None,
):
    """Correct the state where k reads it, token by token: return the output and the last state (…, h, d, e).

    Schlag et al. (2021); with a decay, which comes first, Yang et al. (2025). A returned state continues the sequence.
    Book: {eq}`delta-rule`.
    """
    q, k, v, state, beta, log_decay = arguments(q, k, v, state, beta=beta, log_decay=log_decay)
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for t in range(q.shape[-2]):
        state = np.exp(log_decay[..., t, None, None]) * state
        found = np.einsum("...d,...de->...e", k[..., t, :], state)
        correction = beta[..., t, None] * (v[..., t, :] - found)
        state = state + k[..., t, :, None] * correction[..., None, :]
        output[..., t, :] = np.einsum("...d,...de->...e", q[..., t, :], state)
    return output, state


def parallel_delta_rule(q, k, v, beta, *, state=None, log_decay=None):
    """Return the same from all pairs of tokens at once: one triangular system gives all corrections.

    Correction i is βᵢ(vᵢ − what kᵢ finds), and it finds the first state and the corrections before it (the UT form of
    Yang et al., 2024b, section 3.2).
    """
    q, k, v, state, beta, log_decay = arguments(q, k, v, state, beta=beta, log_decay=log_decay)
    since, between, whole = decayed_since(log_decay)
    kept, late = np.exp(between), np.exp(whole - since)
    earlier = np.tril(beta[..., None] * np.einsum("...id,...jd->...ij", k, k) * kept, -1)
    at_first = np.exp(since)[..., None] * np.einsum("...id,...de->...ie", k, state)
    corrections = np.linalg.solve(np.eye(q.shape[-2]) + earlier, beta[..., None] * (v - at_first))
    weights = np.einsum("...id,...jd->...ij", q, k) * kept
    before = np.exp(since)[..., None] * np.einsum("...id,...de->...ie", q, state)
    after = np.exp(whole)[..., None] * state + np.einsum("...j,...jd,...je->...de", late, k, corrections)
    return before + weights @ corrections, after


def chunked_delta_rule(q, k, v, beta, *, state=None, log_decay=None, chunk=64):
    """Return the same in chunks: one triangular system in each, and the state between them."""
    q, k, v, state, beta, log_decay = arguments(q, k, v, state, beta=beta, log_decay=log_decay)
    chunk = count("chunk", chunk, least=1)
    output = np.empty((*q.shape[:-1], v.shape[-1]))
    for start in range(0, q.shape[-2], chunk):
        part = slice(start, start + chunk)
        rows = (x[..., part, :] for x in (q, k, v))
        by_token = {"log_decay": log_decay[..., part], "state": state}
        output[..., part, :], state = parallel_delta_rule(*rows, beta[..., part], **by_token)
    return output, state
