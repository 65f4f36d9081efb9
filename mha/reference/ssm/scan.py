"""The selective scan of Mamba: every channel keeps a row of numbers, each of which fades at a speed of its own.

Letters: x (…, c, n) channels of n tokens, dt (…, c, n) > 0 the step, A (c, s) < 0, B and C (…, n, s) what a token
writes by and reads by, shared by the channels, D (c,) the skip. The state is (…, c, s). To `gated_linear_attention` a
channel is a head of width 1: C asks, B is the key, dt·x the value and dt·A the gate.

The paper discretises B exactly, by (e^(dt·A) − 1) / A; its code, and everyone's after it, writes dt·B x.
"""

import numpy as np

from mha import shapes


def selective_scan(x: "Float[Array, '*b c n']", dt: "Float[Array, '*b c n']", A, B, C, *, D=None, state=None):
    """Return y and the last state, token by token: state ← e^(dt·A) state + dt·B x, y = C·state + D x.

    Gu and Dao (2023), algorithm 2. dt comes after its bias and softplus. A returned state continues the sequence.
    Book: {eq}`ssm-scan`.
    """
    kept, written, C, state = discretised(x, dt, A, B, C, D, state)
    y = np.empty(written.shape[:-1])
    for t in range(x.shape[-1]):
        state = kept[..., t, :] * state + written[..., t, :]
        y[..., t] = np.einsum("...cs,...s->...c", state, C[..., t, :])
    return skipped(y, x, D), state


def parallel_selective_scan(x, dt, A, B, C, *, D=None, state=None):
    """Return the same from all tokens at once, in ⌈log₂ n⌉ rounds."""
    kept, written, C, state = discretised(x, dt, A, B, C, D, state)
    faded, states = prefix_states(kept, written)
    states = states + faded * state[..., None, :]
    y = np.einsum("...cns,...ns->...cn", states, C)
    return skipped(y, x, D), states[..., -1, :] if x.shape[-1] else state


def prefix_states(kept: "Float[Array, '*b n s']", written: "Float[Array, '*b n s']"):
    """Return Π kept up to each token, and hₜ = keptₜ hₜ₋₁ + writtenₜ from h₋₁ = 0, both (…, n, s).

    Two neighbouring stretches (a, b) and (a′, b′) are one, (a′ a, a′ b + b′), and how they are bracketed does not
    matter. So in each round every token joins the stretch that ends at it to the one before, of twice the length
    (Hillis and Steele, 1986).   Book: {eq}`ssm-associative`.
    """
    shapes.check_rank("kept", kept, ("length", "width"))
    shapes.check_shape("written", written, kept.shape)
    kept, written = shapes.float64("kept", kept), shapes.float64("written", written)
    span = 1
    while span < kept.shape[-2]:
        here, before = np.s_[..., span:, :], np.s_[..., :-span, :]
        longer_kept, longer_written = kept.copy(), written.copy()
        longer_written[here] += kept[here] * written[before]
        longer_kept[here] *= kept[before]
        kept, written, span = longer_kept, longer_written, 2 * span
    return kept, written


def discretised(x, dt, A, B, C, D, state):
    """Return what each token keeps of the state and what it writes to it (…, c, n, s), C, and the first state."""
    lead = shapes.check_selective_scan(x, dt, A, B, C, D, state)
    x, dt, A, B, C = (
        shapes.float64(name, one) for name, one in zip(("x", "dt", "A", "B", "C"), (x, dt, A, B, C), strict=True)
    )
    sizes = *lead, *x.shape[-2:], A.shape[1]
    kept = np.broadcast_to(np.exp(dt[..., None] * A[:, None]), sizes)
    written = np.broadcast_to((dt * x)[..., None] * B[..., None, :, :], sizes)
    state = np.zeros(()) if state is None else shapes.float64("state", state)
    return kept, written, C, np.broadcast_to(state, (*lead, *A.shape))


def skipped(y, x, D):
    """Return y with the input itself, D times."""
    return y if D is None else y + shapes.float64("D", D)[:, None] * shapes.float64("x", x)
