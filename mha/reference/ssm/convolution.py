"""A short causal convolution, each channel alone: what a token shows is mixed with the few tokens before it."""

import numpy as np

from mha import shapes


def causal_convolution(x: "Float[Array, '*b c n']", weight: "Float[Array, 'c w']", bias=None, *, state=None):
    """Return yₜ = Σ_k weight_k x_{t−w+1+k} + bias, and the last w − 1 inputs (…, c, w − 1), from which it goes on.

    The last weight is that of the token itself. Without a state there are zeros before the first token. Gu and Dao
    (2023), section 3.4.   Book: {eq}`ssm-convolution`.
    """
    shapes.check_convolution(x, weight, bias, state)
    x, weight = shapes.float64("x", x), shapes.float64("weight", weight)
    *batch, channels, n = x.shape
    width = weight.shape[1]
    state = np.zeros(()) if state is None else shapes.float64("state", state)
    seen = np.concatenate([np.broadcast_to(state, (*batch, channels, width - 1)), x], -1)
    y = sum((weight[:, k, None] * seen[..., k : k + n] for k in range(width)), np.zeros(x.shape))
    y = y if bias is None else y + shapes.float64("bias", bias)[:, None]
    return y, seen[..., n:]
