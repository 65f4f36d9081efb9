"""Attention written from its rules, one query row at a time, in float64: it shares no code with the package.

Gradients are the chain rule by hand. `see` is a boolean array (b, h, i, j); hidden entries are never read.
"""

import math
from types import SimpleNamespace

import numpy as np


def attend(q, k, v, see, d_out, *, bias=None, scale=None, softcap=None, sinks=None, factors=None):
    """Return output, weights, lse, max_logit, entropy and the gradients of q, k, v, bias and sinks."""
    (batch, heads, n_q, d), (_, groups, n_k, e) = q.shape, v.shape
    scale = d**-0.5 if scale is None else scale
    bias = np.zeros((batch, heads, n_q, n_k)) if bias is None else np.broadcast_to(bias, (batch, heads, n_q, n_k))
    found = SimpleNamespace(
        output=np.zeros((batch, heads, n_q, e)),
        weights=np.zeros((batch, heads, n_q, n_k)),
        **{name: np.zeros((batch, heads, n_q)) for name in ("lse", "max_logit", "entropy")},
        **{"d_q": np.zeros(q.shape), "d_k": np.zeros(k.shape), "d_v": np.zeros(v.shape)},
        **{"d_bias": np.zeros(bias.shape), "d_sinks": np.zeros(heads)},
    )
    for b, h, i in np.ndindex(batch, heads, n_q):
        g = h * groups // heads
        row, visible = (b, h, i), np.flatnonzero(see[b, h, i] & (bias[b, h, i] > -math.inf))
        sink = -math.inf if sinks is None else sinks[h]
        keys, values = k[b, g, visible], v[b, g, visible]
        raw = scale * (keys @ q[row])
        capped = raw if softcap is None else softcap * np.tanh(raw / softcap)
        s = capped + bias[row][visible]
        p, p_sink = _softmax(found, row, s, sink)
        f = np.ones(len(visible)) if factors is None else factors[row][visible]
        found.weights[row][visible] = p
        found.output[row] = (p * f) @ values
        d_p = f * (values @ d_out[row])
        mean = p @ d_p
        d_s = p * (d_p - mean)
        found.d_bias[row][visible] = d_s
        found.d_sinks[h] -= p_sink * mean
        d_raw = d_s if softcap is None else d_s * (1 - (capped / softcap) ** 2)
        found.d_q[row] = scale * (d_raw @ keys)
        found.d_k[b, g, visible] += scale * np.outer(d_raw, q[row])
        found.d_v[b, g, visible] += np.outer(p * f, d_out[row])
    return found


def _softmax(found, row, s, sink):
    """Return the weights of the keys and of the sink, and note the statistics of the row."""
    found.max_logit[row] = s.max(initial=-math.inf)
    top = max(found.max_logit[row], sink)
    if top == -math.inf:  # neither a key nor a sink
        found.lse[row] = -math.inf
        return np.zeros(0), 0.0
    e, e_sink = np.exp(s - top), math.exp(sink - top)
    total = e.sum() + e_sink
    found.lse[row] = top + math.log(total)
    if len(s):
        alone = np.exp(s - found.max_logit[row])
        alone /= alone.sum()
        found.entropy[row] = -sum(x * math.log(x) for x in alone if x > 0)
    return e / total, e_sink / total
