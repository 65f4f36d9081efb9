"""A call of a kernel, drawn from a seed: its tensors, laid out in memory in many ways, and its options."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from mha import masks
from mha.dropout import Dropout


@dataclass
class Call:
    """The arguments of `attention`, and what goes backward: the gradients of its output and, with statistics, of lse.

    `bias` is what the call adds to the scores as a tensor; where `rule` gives it by positions, the call takes that.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    d_out: torch.Tensor
    d_lse: torch.Tensor | None = None
    mask: Any = None
    bias: torch.Tensor | None = None
    rule: Any = None
    scale: float | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None
    q_start: Any = None
    dropout: Dropout | None = None
    options: dict = field(default_factory=dict)  # of the kernels alone
    noise: float | None = None  # what the kernels find in keys and values that no query of the group sees

    @property
    def weights_shape(self):
        return *self.q.shape[:3], self.k.shape[2]

    def arguments(self):
        """Return the options as `attention` takes them, those that are None left out."""
        bias = self.bias if self.rule is None else self.rule
        given = {name: getattr(self, name) for name in ("mask", "scale", "softcap", "sinks", "q_start", "dropout")}
        return {name: x for name, x in (given | {"bias": bias}).items() if x is not None} | self.options

    def see(self):
        """Return which pairs the mask shows, (b, h, i, j)."""
        if self.mask is None:
            return torch.ones(self.weights_shape, dtype=torch.bool)
        see = masks.as_mask(self.mask).dense(*self.weights_shape[2:], self.q_start)
        return torch.from_numpy(np.array(np.broadcast_to(see, self.weights_shape)))

    def visible(self):
        """Return which pairs take part: those that the mask shows and the bias does not hide."""
        return self.see() if self.bias is None else self.see() & (self.bias > -torch.inf)

    def seen(self):
        """Return which keys (b, g, j) some query of their group sees."""
        return self.visible().any(2).unflatten(1, (self.k.shape[1], -1)).any(2)

    def tensors(self):
        """Return q, k and v as `attention` takes them."""
        if self.noise is None:
            return {"q": self.q, "k": self.k, "v": self.v}
        unseen = ~self.seen()[..., None]
        return {"q": self.q, "k": self.k.masked_fill(unseen, self.noise), "v": self.v.masked_fill(unseen, self.noise)}

    def factors(self):
        """Return what dropout multiplies the weights by, from NumPy's Philox."""
        return None if self.dropout is None else torch.from_numpy(self.dropout.factors(self.weights_shape))


def normal(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape))


LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "positions first": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "transposed": lambda x: x.mT.contiguous().mT,
    "every other": lambda x: torch.stack([x, -x], dim=-1).flatten(-2)[..., ::2],
    "one sample": lambda x: x[:1].expand_as(x),
    "one head": lambda x: x[:, :1].expand_as(x),
    "one row": lambda x: x[..., :1, :].expand_as(x),
}


def laid_out(layout, *tensors):
    """Return these tensors (b, heads, length, width) as views of other memory; "fused": all of one projection."""
    if layout != "fused":
        return tuple(LAYOUTS[layout](x) for x in tensors)
    batch, longest = tensors[0].shape[0], max(x.shape[2] for x in tensors)
    projection = tensors[0].new_full((batch, longest, sum(x.shape[1] * x.shape[3] for x in tensors)), torch.nan)
    views, column = [], 0
    for x in tensors:
        _, heads, length, width = x.shape
        view = projection[:, :length, column : column + heads * width].unflatten(-1, (heads, width)).transpose(1, 2)
        views.append(view.copy_(x))
        column += heads * width
    return tuple(views)
