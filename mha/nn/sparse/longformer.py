"""Longformer's attention: most tokens look around, a few look everywhere and are seen from everywhere.

Same meaning as `mha.reference.sparse.longformer`. The local mask runs tile by tile, and only rows of global tokens
meet all keys: time and memory grow with the window and the number of global tokens, not with n².
"""

import math

import torch
from torch import nn

from mha import masks, shapes
from mha.nn import checks, layer_checks
from mha.nn.dot_product import attention
from mha.nn.heads import join_heads, split_heads

__all__ = ["LongformerAttention", "longformer_attention"]


def longformer_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b h j d']",
    v: "Float[Tensor, '*b h j e']",
    q_global: "Float[Tensor, '*b h i d']",
    k_global: "Float[Tensor, '*b h j d']",
    v_global: "Float[Tensor, '*b h j e']",
    is_global: "Bool[Tensor, '... j']",
    *,
    local,
    mask=None,
    scale=None,
    q_start=None,
) -> "Float[Tensor, '*b h i e']":
    """Let global tokens attend to all keys, the others to their `local` mask and to the global keys (Beltagy et al.,
    2020).   Book: {eq}`longformer`

    The two kinds of query have projections of their own: q_global meets k_global and v_global. `is_global` tells of
    each token, by slot, whether it is global: (j,) or one row per sample. `mask` restricts both kinds, as padding and
    `causal` do. The queries are the tokens from slot `q_start` on, by default the last ones. A token that is global in
    one sample costs a row of n scores in every sample.
    """
    checks.tensors(q=q, k=k, v=v, q_global=q_global, k_global=k_global, v_global=v_global, is_global=is_global)
    n_q, n_k = q.shape[-2], k.shape[-2]
    shapes.check_is_global(is_global, k.shape[:-3], n_k)
    shapes.check_global(q, k, v, q_global, k_global, v_global)
    first = shapes.check_rows(n_q, n_k, q_start)
    samples = math.prod(is_global.shape[:-1])
    see = local | masks.dense(is_global.reshape(samples, 1, 1, n_k))
    see = see if mask is None else see & masks.as_mask(mask)
    around = attention(q, k, v, mask=see, scale=scale, q_start=first)
    chosen = is_global[..., first : first + n_q]
    rows = chosen.reshape(samples, n_q).any(0).nonzero()[:, 0]
    if not len(rows):
        return around
    see = None if mask is None else _of_rows(masks.as_mask(mask), rows, first, q, n_k)
    everywhere = attention(q_global[..., rows, :], k_global, v_global, mask=see, scale=scale, q_start=first)
    chosen = chosen[..., None, rows, None]
    return around.index_copy(-2, rows, torch.where(chosen, everywhere, around[..., rows, :]))


def _of_rows(mask, rows, first, q, n_k):
    """Return what a mask shows to some rows of q, as booleans."""
    sizes = {"batch": math.prod(q.shape[:-3]), "num_heads": q.shape[-3]}
    see = masks.visible(mask, q.shape[-2], n_k, start=first, rows=rows.cpu().numpy(), **sizes)
    return torch.from_numpy(see.copy()).to(q.device)


class LongformerAttention(nn.Module):
    """Self-attention with a `local` mask and global tokens, which have a second set of projections.

    Inputs and outputs are (batch, length, d_model). Longformer's `local` is `masks.window(w // 2, w // 2)`; dilation
    in some heads is `masks.per_head`. At first the global projections equal the local ones, as the paper has it.
    """

    def __init__(self, d_model: int, num_heads: int, *, local, bias: bool = True, device=None, dtype=None):
        super().__init__()
        layer_checks.check_sizes(d_model, num_heads, num_heads, None, d_model, d_model)
        layer_checks.check_flags(bias=bias, sinks=False, gate=False)
        self.num_heads, self.local = num_heads, masks.as_mask(local)
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model, **options) for _ in range(3))
        self.q_global_proj, self.k_global_proj, self.v_global_proj = (
            nn.Linear(d_model, d_model, **options) for _ in range(3)
        )
        self.out_proj = nn.Linear(d_model, d_model, **options)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights by Glorot's rule, set biases to zero, and copy the local projections to the global ones."""
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        for name in ("q", "k", "v"):
            getattr(self, f"{name}_global_proj").load_state_dict(getattr(self, f"{name}_proj").state_dict())

    def forward(self, x, is_global, *, mask=None):
        """Return (batch, length, d_model); `is_global` and `mask` are those of `longformer_attention`."""
        layer_checks.check_input("x", x, self.q_proj)
        local = (self.q_proj, self.k_proj, self.v_proj)
        everywhere = (self.q_global_proj, self.k_global_proj, self.v_global_proj)
        parts = (split_heads(linear(x), self.num_heads) for linear in (*local, *everywhere))
        return self.out_proj(join_heads(longformer_attention(*parts, is_global, local=self.local, mask=mask)))

    def extra_repr(self):
        return f"num_heads={self.num_heads}, local={self.local}"
