"""The selective state space of Mamba-2 on torch tensors: linear attention under other names."""

from mha import shapes
from mha.nn import checks
from mha.nn.linear.recurrent import linear_attention

__all__ = ["selective_state_space"]


def selective_state_space(
    x: "Float[Tensor, '*b n e']",
    dt: "Float[Tensor, '*b n']",
    A,
    B,
    C,
    *,
    D=None,
    state=None,
    core=linear_attention,
):
    """Return y and the last state (…, h, d, e): state ← e^(dt·A) state + dt·B xᵀ, y = C state + D x.

    Dao and Gu (2024). A and D (h,) are of the heads, B and C (…, g, n, d) of groups of heads; dt comes after its bias
    and softplus. `core` is this floor's `linear_attention` or the kernels'.
    """
    checks.tensors(x=x, dt=dt, A=A, B=B, C=C, **({} if D is None else {"D": D}))
    shapes.check_state_space(x, dt, A, B, C, D)
    keys, queries = (one.repeat_interleave(x.shape[-3] // one.shape[-3], -3) for one in (B, C))
    y, state = core(queries, keys, dt[..., None] * x, state=state, log_decay=dt * A[:, None])
    return y if D is None else y + D[:, None, None] * x, state
