"""The selective scan of Mamba on torch tensors: the meaning of `mha.reference`, computed in chunks.

All chunks go through their tokens side by side, each from an empty state; then the state passes from chunk to chunk,
and what it adds fades on the way. So n tokens take `chunk` + n / chunk dependent steps, and no exponent is positive.
"""

import torch

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import alike, wide
from mha.nn.linear.chunks import chunks
from mha.nn.modes import own_precision

__all__ = ["selective_scan"]


def selective_scan(
    x: "Float[Tensor, '*b c n']", dt: "Float[Tensor, '*b c n']", A, B, C, *, D=None, state=None, chunk=64
):
    """Return y and the last state (…, c, s): state ← e^(dt·A) state + dt·B x, y = C·state + D x.

    Gu and Dao (2023). A (c, s) and D (c,) are of the channels, B and C (…, n, s) of the tokens; dt comes after its bias
    and softplus. Memory is proportional to c · n · s. Any derivative exists.
    """
    options = {name: one for name, one in {"D": D, "state": state}.items() if one is not None}
    checks.tensors(x=x, dt=dt, A=A, B=B, C=C, **options)
    lead, chunk = shapes.check_selective_scan(x, dt, A, B, C, D, state), count("chunk", chunk, least=1)
    own = x.dtype
    x, dt, A, B, C = (wide(one) for one in alike(x, dt, A, B, C))
    sizes = *lead, *x.shape[-2:], A.shape[1]
    first = x.new_zeros(()) if state is None else state.to(x.dtype)
    with own_precision(x):
        log_kept = (dt[..., None] * A[:, None]).expand(sizes)
        written = ((dt * x)[..., None] * B[..., None, :, :]).expand(sizes)
        states, last = in_chunks(chunks(log_kept, chunk), chunks(written, chunk), first.expand(*lead, *A.shape))
        states = states.flatten(-3, -2)[..., : x.shape[-1], :]
        y = (states * C[..., None, :, :]).sum(-1)
        y = y if D is None else y + D[:, None].to(x.dtype) * x
    return y.to(own), last


def in_chunks(log_kept, written, first):
    """Return the states after each token (…, k, m, s) of k chunks of m tokens, and the last one, from the first."""
    kept, state, within = log_kept.exp(), torch.zeros_like(written[..., 0, :]), []
    for t in range(written.shape[-2]):
        state = kept[..., t, :] * state + written[..., t, :]
        within.append(state)
    since = log_kept.cumsum(-2).exp()
    before, last = [], first
    for chunk in range(written.shape[-3]):
        before.append(last)
        last = since[..., chunk, -1, :] * last + within[-1][..., chunk, :]
    return torch.stack(within, -2) + since * torch.stack(before, -2)[..., None, :], last
