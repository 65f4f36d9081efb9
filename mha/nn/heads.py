"""Multi-head attention: project, split into heads, attend in each, join, project."""

import torch
from einops import rearrange
from torch import nn

from mha import shapes
from mha.dropout import Dropout
from mha.nn import checks, layer_checks, torch_mha
from mha.nn.dot_product import attention, attention_weights
from mha.nn.positions import places

__all__ = ["MultiHeadAttention", "join_heads", "split_heads"]


def split_heads(x: "Float[Tensor, '*b n hd']", num_heads: int) -> "Float[Tensor, '*b h n d']":
    """Cut the columns into contiguous strips, one a head.   Book: {eq}`split-heads`"""
    checks.tensors(x=x)
    shapes.check_rank("x", x, ("length", "width"))
    shapes.check_heads(x.shape[-1], num_heads, name="the width of x")
    return rearrange(x, "... n (h d) -> ... h n d", h=num_heads)


def join_heads(x: "Float[Tensor, '*b h n d']") -> "Float[Tensor, '*b n hd']":
    """Lay the heads side by side again: the inverse of `split_heads`.   Book: {eq}`join-heads`"""
    checks.tensors(x=x)
    shapes.check_rank("x", x, ("heads", "length", "width"))
    return rearrange(x, "... h n d -> ... n (h d)")


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` heads between x and a context, x itself by default.   Book: {eq}`multi-head`

    Inputs are (batch, length, width), batch first; so is the output, and it is the only thing returned: `weights`,
    `per_head` and `project` answer other questions without changing it. The context may be a pair: one input for the
    keys, one for the values. `position` is an object with `rotate(x, positions)`, such as `Rotary()`; `core` is any
    function with the arguments of `mha.nn.attention`. Dropout acts in training mode only, its seed drawn from
    torch's global generator.

    Position scheme and mask see the same positions. `positions` say where the rows of x stand, (length,) or one row
    per sample; `context_positions` say it of the context. By default the context counts from 0, and the last row of x
    stands at its last row, or with `masks.lengths` at the last valid one. If the mask compares positions, both must
    be consecutive integers (checked on a CPU, outside of graphs).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        d_head: int | None = None,
        d_key_in: int | None = None,
        d_value_in: int | None = None,
        bias: bool = True,
        position=None,
        scale: float | None = None,
        softcap: float | None = None,
        dropout: float = 0.0,
        core=attention,
        device=None,
        dtype=None,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        d_key_in, d_value_in = (d_model if width is None else width for width in (d_key_in, d_value_in))
        layer_checks.check_sizes(d_model, num_heads, num_kv_heads, d_head, d_key_in, d_value_in)
        d_head = d_model // num_heads if d_head is None else d_head
        layer_checks.check_options(d_head, bias, position, scale, softcap, dropout, core, dtype)
        self.d_model, self.num_heads, self.num_kv_heads, self.d_head = d_model, num_heads, num_kv_heads, d_head
        self.position, self.scale, self.softcap, self.dropout, self.core = position, scale, softcap, dropout, core
        options = {"bias": bias, "device": device, "dtype": dtype}
        d_queries, d_keys = self.num_heads * self.d_head, self.num_kv_heads * self.d_head
        self.q_proj = nn.Linear(d_model, d_queries, **options)
        self.k_proj = nn.Linear(d_key_in, d_keys, **options)
        self.v_proj = nn.Linear(d_value_in, d_keys, **options)
        self.out_proj = nn.Linear(d_queries, d_model, **options)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights by Glorot's rule and set the biases to zero."""
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x, context=None, *, mask=None, bias=None, positions=None, context_positions=None):
        """Return (batch, length, d_model)."""
        heads = self.per_head(
            x, context, mask=mask, bias=bias, positions=positions, context_positions=context_positions
        )
        return self.out_proj(join_heads(heads))

    def per_head(self, x, context=None, *, mask=None, bias=None, positions=None, context_positions=None):
        """Return what each head found, before the join: (batch, heads, length, d_head).   Book: {eq}`head`"""
        q, k, v, q_start = self._placed(x, context, mask, positions, context_positions)
        return self.core(q, k, v, **self._options(mask, bias, q_start), dropout=self._dropout())

    def weights(self, x, context=None, *, mask=None, bias=None, positions=None, context_positions=None):
        """Return the weights of each head, before dropout: (batch, heads, queries, keys)."""
        q, k, _, q_start = self._placed(x, context, mask, positions, context_positions)
        return attention_weights(q, k, **self._options(mask, bias, q_start))

    def project(self, x, context=None, *, mask=None, positions=None, context_positions=None):
        """Return q, k, v of all heads as attention sees them, positions applied.

        The mask hides nothing here; it may know where the sample ends, and there stands the last query.
        """
        q, k, v, _ = self._placed(x, context, mask, positions, context_positions)
        return q, k, v

    def _options(self, mask, bias, q_start):
        return {"mask": mask, "bias": bias, "scale": self.scale, "softcap": self.softcap, "q_start": q_start}

    def _placed(self, x, context, mask, positions, context_positions):
        """Return q, k and v, positions applied, and where the mask finds the first query."""
        if isinstance(context, tuple) and len(context) != 2:
            raise ValueError(f"context is a tuple of {len(context)}: expected one input, or (for keys, for values)")
        for_keys, for_values = context if isinstance(context, tuple) else (context, context)
        for_keys, for_values = (x if c is None else c for c in (for_keys, for_values))
        layer_checks.check_input("x", x, self.q_proj)
        layer_checks.check_input("context", for_keys, self.k_proj)
        layer_checks.check_input("context", for_values, self.v_proj)
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(for_keys), self.num_kv_heads)
        v = split_heads(self.v_proj(for_values), self.num_kv_heads)
        if self.position is None and positions is None and context_positions is None:
            return q, k, v, None
        stand = places(mask, q, k, positions, context_positions, same=for_keys is x)
        if self.position is not None:
            q, k = self.position.rotate(q, stand.queries), self.position.rotate(k, stand.keys)
        return q, k, v, stand.q_start

    def _dropout(self):
        if not self.training or self.dropout == 0:
            return None
        return Dropout(self.dropout, torch.randint(2**31, (), device=self.out_proj.weight.device))

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention):
        """Return the same layer as ours, with copies of the weights."""
        return torch_mha.convert_from(cls, module)

    def to_torch(self, *, batch_first: bool = True) -> nn.MultiheadAttention:
        """Return the same layer as torch's, with copies of the weights."""
        return torch_mha.convert_to(self, batch_first)

    def extra_repr(self):
        names = "d_model", "num_heads", "num_kv_heads", "d_head", "position", "scale", "softcap", "dropout"
        return ", ".join(f"{name}={getattr(self, name)}" for name in names if getattr(self, name) is not None)
