"""A short causal convolution, each channel alone. Same meaning as `mha.reference`."""

import torch

from mha import shapes
from mha.nn import checks

__all__ = ["causal_convolution"]


def causal_convolution(x: "Float[Tensor, '*b c n']", weight: "Float[Tensor, 'c w']", bias=None, *, state=None):
    """Return yₜ = Σ_k weight_k x_{t−w+1+k} + bias, and the last w − 1 inputs (…, c, w − 1), from which it goes on.

    The last weight is that of the token itself. Without a state there are zeros before the first token.
    """
    given = {"x": x, "weight": weight, "bias": bias, "state": state}
    checks.tensors(**{name: one for name, one in given.items() if one is not None})
    shapes.check_convolution(x, weight, bias, state)
    n, before = x.shape[-1], (*x.shape[:-1], weight.shape[1] - 1)
    state = x.new_zeros(before) if state is None else state.to(x.dtype).expand(before)
    seen = torch.cat([state.mT, x.mT], -2)  # token by token, as x lies in memory where a layer calls
    y = sum(weight[:, k] * seen[..., k : k + n, :] for k in range(weight.shape[1]))
    y = y if bias is None else y + bias
    return y.mT, seen[..., n:, :].mT.clone()  # a view would hold all of it
