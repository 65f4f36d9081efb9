"""The selective state space of Mamba-2 is linear attention: C asks, B is the key, the input is the value.

Letters of its literature: x (…, h, n, e) the input, dt (…, h, n) > 0 the step, A (h,) < 0, B and C (…, g, n, d) one for
each group of heads, D (h,) the skip. What passes on to the next token is e^(dt·A).
"""

import numpy as np

from mha import shapes
from mha.reference.linear.recurrent import linear_attention


def selective_state_space(
    x: "Float[Array, '*b n e']",
    dt: "Float[Array, '*b n']",
    A,
    B,
    C,
    *,
    D=None,
    state=None,
    core=linear_attention,
):
    """Return y and the last state (…, h, d, e): state ← e^(dt·A) state + dt·B xᵀ, y = C state + D x.

    Dao and Gu (2024). `core` is any form of linear attention: the recurrence, all pairs at once (their attention with a
    decay mask) or chunks. dt comes after its bias and softplus.   Book: {eq}`linear-ssd`.
    """
    shapes.check_state_space(x, dt, A, B, C, D)
    x, dt, A, B, C = (
        shapes.float64(name, one) for name, one in zip(("x", "dt", "A", "B", "C"), (x, dt, A, B, C), strict=True)
    )
    keys, queries = (np.repeat(one, x.shape[-3] // one.shape[-3], axis=-3) for one in (B, C))
    y, state = core(queries, keys, dt[..., None] * x, state=state, log_decay=dt * A[:, None])
    return y if D is None else y + shapes.float64("D", D)[:, None, None] * x, state
