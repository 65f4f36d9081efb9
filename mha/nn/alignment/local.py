"""Where in the source a step looks, predicted from its state: local-p of Luong et al. (2015)."""

import torch
from torch import nn

from mha.integers import count
from mha.nn import checks

__all__ = ["CenterPredictor", "predicted_centers"]


def predicted_centers(
    q: "Float[Tensor, '*b i d']", w: "Float[Tensor, 'd a']", v: "Float[Tensor, ' a']", lengths
) -> "Float[Tensor, '*b i']":
    """Predict where in the source each step looks: p = S · sigmoid(vᵀ tanh(W q)), S the source's length.

    `lengths` is S, one number or one for each sample (Luong et al. 2015, local-p).   Book: {eq}`predicted-center`
    """
    checks.tensors(q=q, w=w, v=v)
    share = torch.sigmoid(torch.tanh(q @ w) @ v)
    return torch.as_tensor(lengths, dtype=share.dtype, device=q.device)[..., None] * share


class CenterPredictor(nn.Module):
    """Where a step looks: the parameters of `predicted_centers`."""

    def __init__(self, d_query, d_hidden, *, device=None, dtype=None):
        super().__init__()
        options = {"bias": False, "device": device, "dtype": dtype}
        self.proj = nn.Linear(d_query, count("d_hidden", d_hidden, least=1), **options)
        self.combine = nn.Linear(d_hidden, 1, **options)

    def forward(self, q, lengths):
        """Return the centres (…, i)."""
        return predicted_centers(q, self.proj.weight.mT, self.combine.weight[0], lengths)
