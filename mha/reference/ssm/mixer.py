"""The layer of Mamba-2: one projection, a short convolution, the state space, a gate, and a projection back."""

import numpy as np

from mha import shapes
from mha.reference.heads import join_heads, split_heads
from mha.reference.linear.ssd import selective_state_space
from mha.reference.norm import rms_norm
from mha.reference.ssm.convolution import causal_convolution


def gated_rms_norm(
    x: "Float[Array, '*b m']", gate: "Float[Array, '*b m']", gain=None, *, num_groups=1, eps=1e-5
) -> "Float[Array, '*b m']":
    """Multiply x by gate · sigmoid(gate), bring each group of coordinates to one size, then multiply by the gain."""
    x, gate = shapes.float64("x", x), shapes.float64("gate", gate)
    shapes.check_shape("gate", gate, x.shape)
    shapes.check_heads(x.shape[-1], num_groups, name="the width of x")
    groups = silu_gated(x, gate).reshape(*x.shape[:-1], num_groups, x.shape[-1] // num_groups)
    normed = rms_norm(groups, eps=eps).reshape(x.shape)
    if gain is None:
        return normed
    shapes.check_shape("gain", gain, x.shape[-1:])
    return normed * shapes.float64("gain", gain)


def mamba2_mixer(
    x: "Float[Array, '*b n m']", w_in, w_conv, w_out, *, dt_bias, A_log, D, d_state, b_conv=None, gain=None,
    num_groups=1, eps=1e-5,
) -> "Float[Array, '*b n m']":  # fmt: skip
    """Return what the layer of Mamba-2 makes of a sequence (Dao and Gu, 2024, section 7).   Book: {eq}`ssm-mixer`.

    x w_in is the gate (h·e), then x, B and C of the state space (h·e, g·d, g·d), which the convolution w_conv
    (channels, width) mixes with the tokens before, then a step for each of the h heads. dt_bias, A_log and D are (h,):
    dt = softplus(step + dt_bias), A = −e^A_log. The weights w_in and w_out are (d_in, d_out).
    """
    num_heads, inner, shared = len(A_log), w_out.shape[0], num_groups * d_state
    shapes.check_shape("w_in", w_in, (x.shape[-1], 2 * inner + 2 * shared + num_heads))
    for name, one in {"dt_bias": dt_bias, "D": D}.items():
        shapes.check_shape(name, one, (num_heads,))
    gate, mixed, step = np.split(shapes.float64("x", x) @ w_in, [inner, 2 * inner + 2 * shared], -1)
    mixed, _ = causal_convolution(np.swapaxes(mixed, -1, -2), w_conv, b_conv)
    mixed = np.swapaxes(mixed, -1, -2)
    value, B, C = np.split(silu_gated(np.ones(mixed.shape), mixed), [inner, inner + shared], -1)
    value, B, C = split_heads(value, num_heads), split_heads(B, num_groups), split_heads(C, num_groups)
    dt = np.swapaxes(np.logaddexp(0, step + dt_bias), -1, -2)
    y, _ = selective_state_space(value, dt, -np.exp(A_log), B, C, D=D)
    return gated_rms_norm(join_heads(y), gate, gain, num_groups=num_groups, eps=eps) @ w_out


def silu_gated(x, gate):
    return x * gate * np.exp(-np.logaddexp(0, -gate))
