"""Multi-head attention: project, split into heads, attend in each, join, project."""

from functools import partial

import torch
from torch import nn

from mha import shapes
from mha.dropout import Dropout
from mha.nn import checks, head_ids, layer_checks, norm, torch_mha
from mha.nn.cache import Cache, cached_attention
from mha.nn.dot_product import attention, attention_weights
from mha.nn.schemes import Places, biased, core_biased, places, turned
from mha.options import LAYER, hinted

__all__ = ["MultiHeadAttention", "join_heads", "split_heads"]


def split_heads(x: "Float[Tensor, '*b n hd']", num_heads: int) -> "Float[Tensor, '*b h n d']":
    """Cut the columns into contiguous strips, one a head.   Book: {eq}`split-heads`"""
    checks.tensors(x=x)
    shapes.check_rank("x", x, ("length", "width"))
    shapes.check_heads(x.shape[-1], num_heads, name="the width of x")
    return _split(x, num_heads)


def join_heads(x: "Float[Tensor, '*b h n d']") -> "Float[Tensor, '*b n hd']":
    """Lay the heads side by side again: the inverse of `split_heads`.   Book: {eq}`join-heads`"""
    checks.tensors(x=x)
    shapes.check_rank("x", x, ("heads", "length", "width"))
    return x.transpose(-2, -3).flatten(-2)


def _split(x, num_heads):
    return x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads).transpose(-2, -3)


class MultiHeadAttention(nn.Module):
    """Attention in `num_heads` heads between x and a context, x itself by default.   Book: {eq}`multi-head`

    Inputs are (batch, length, width), batch first; so is the output, and it is the only thing returned: `weights`,
    `per_head` and `project` answer other questions without changing it. The context may be a pair: one input for the
    keys, one for the values. Dropout acts in training mode only, its seed drawn from torch's global generator.

    `position` is an object with any of `rotate(x, positions)`, as `Rotary()` has, `bias(q_positions, k_positions)`
    and `content_bias(q, k, q_positions, k_positions, scale)`: what it adds to the scores, (…, heads, i, j), by distance
    alone or by what stands there too: q and k as attention sees them, k with the key heads.

    `qk_norm` makes the norm of queries and the norm of keys: `nn.RMSNorm`, or any other factory called with `d_head`,
    `device` and `dtype`; they act before the rotation, or in `AfterPosition(nn.RMSNorm)` after it. `sinks` learns one
    more logit a query head, whose value is zero. `gate` multiplies each number that a head found by a sigmoid of x
    (Qiu et al. 2025). `core` is any function with the arguments of `mha.nn.attention`.

    Position scheme and mask see the same positions. `positions` say where the rows of x stand, (length,) or one row
    per sample; `context_positions` say it of the context. By default the context counts from 0, and the last row of x
    stands at its last row, or with `masks.lengths` at the last valid one. If the mask compares positions, both must
    be consecutive integers (checked on a CPU, outside of graphs).

    `mha.analysis.remove_heads` takes heads out. `head_ids` are the numbers that those left had at first, `key_heads`
    the key head that each reads now: groups may be of unequal size. Masks and biases with an axis of heads are about
    the heads that are left, in this order. A state holds both, and loads into a layer that is still whole: load first,
    and make optimizers then, for the parameters are new ones.
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
        qk_norm=None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: bool = False,
        gate: bool = False,
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
        layer_checks.check_options(d_head, position, scale, softcap, dropout, core, dtype)
        layer_checks.check_flags(bias=bias, sinks=sinks, gate=gate)
        self.d_model, self.num_heads, self.num_kv_heads, self.d_head = d_model, num_heads, num_kv_heads, d_head
        self.position, self.scale, self.softcap, self.dropout, self.core = position, scale, softcap, dropout, core
        self.built_with, self.head_ids = (num_heads, num_kv_heads), tuple(range(num_heads))
        self.reads = self.scheme_heads = None  # what surgery has made irregular
        options = {"bias": bias, "device": device, "dtype": dtype}
        d_queries, d_keys = self.num_heads * self.d_head, self.num_kv_heads * self.d_head
        self.q_proj = nn.Linear(d_model, d_queries, **options)
        self.k_proj = nn.Linear(d_key_in, d_keys, **options)
        self.v_proj = nn.Linear(d_value_in, d_keys, **options)
        self.out_proj = nn.Linear(d_queries, d_model, **options)
        self.gate_proj = nn.Linear(d_model, d_queries, **options) if gate else None
        self.sinks = nn.Parameter(torch.empty(num_heads, device=device, dtype=dtype)) if sinks else None
        self.q_norm, self.k_norm = norm.pair(qk_norm, d_head, device, dtype)
        self.norm_last = isinstance(qk_norm, norm.AfterPosition)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights by Glorot's rule, set biases and sinks to zero and the norms to their own start."""
        for linear in filter(None, (self.q_proj, self.k_proj, self.v_proj, self.out_proj, self.gate_proj)):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        if self.sinks is not None:
            nn.init.zeros_(self.sinks)
        for part in (self.q_norm, self.k_norm):
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()

    @property
    def key_heads(self):
        """The key head that each query head reads, by its number now."""
        return head_ids.regular(self.num_heads, self.num_kv_heads) if self.reads is None else self.reads

    @partial(hinted, answers=LAYER)
    def forward(self, x, context=None, *, mask=None, bias=None, positions=None, context_positions=None):
        """Return (batch, length, d_model)."""
        heads = self.per_head(
            x, context, mask=mask, bias=bias, positions=positions, context_positions=context_positions
        )
        return self._written(heads, x)

    def step(self, x, cache, *, mask=None, bias=None, position=None):
        """Return the output of the next rows of each sequence and the cache with them; start with `mha.nn.Cache()`.

        Mask and bias are about all rows, old and new: (rows of x, slots of the new cache). As in `forward`, rows that
        come together see each other unless the mask hides them: a decoder says `masks.causal`. `position` takes the
        place of the layer's own scheme: `Rotary.at`, worked out for these rows once, serves every layer of a model.
        """
        layer_checks.check_cache(cache, x)
        if position is None:
            position = self.position
        else:
            layer_checks.check_position(position)
        q, k, v = self._projected(x, x, x)
        core = self.core
        if position is not None:
            new = cache.positions(x.shape[-2], x.device)
            q, k = turned(position, q, k, new, new)
            slots = torch.arange(cache.slots_after(x.shape[-2]), device=x.device)
            core = core_biased(core, position, Places(new, slots, None), self.scheme_heads)
        if self.norm_last:
            q, k = self._normed(q, k)
        core = core if self.reads is None else head_ids.reading_core(core, self.reads)
        options = self._options(mask, bias) | {"dropout": self._dropout()}
        heads, cache = cached_attention(q, k, v, cache, core=core, **options)
        return self._written(heads, x), cache

    def remember(self, context):
        """Return a cache with the keys and the values of a whole context, for `recall` to read any number of times."""
        layer_checks.check_unplaced(self.position)
        for linear in (self.k_proj, self.v_proj):
            layer_checks.check_input("context", context, linear)
        k, v = (_split(linear(context), self.num_kv_heads) for linear in (self.k_proj, self.v_proj))
        k = k if self.k_norm is None else norm.normed(self.k_norm, k)
        return Cache(k.shape[-2], (k, v))

    def recall(self, x, cache, *, mask=None, bias=None):
        """Return what x finds in a context that `remember` has read: that of `forward(x, context)`."""
        layer_checks.check_unplaced(self.position)
        layer_checks.check_cache(cache, x)
        layer_checks.check_input("x", x, self.q_proj)
        q = _split(self.q_proj(x), self.num_heads)
        q = q if self.q_norm is None else norm.normed(self.q_norm, q)
        options = self._options(mask, bias) | {"dropout": self._dropout()}
        core = self.core if self.reads is None else head_ids.reading_core(self.core, self.reads)
        return self._written(core(q, *cache.rows, **options), x)

    def per_head(self, x, context=None, *, mask=None, bias=None, positions=None, context_positions=None):
        """Return what each head found, before gate and join: (batch, heads, length, d_head).   Book: {eq}`head`"""
        q, k, v, options = self._call(x, context, mask, bias, positions, context_positions)
        return self.core(q, k, v, **options, dropout=self._dropout())

    def weights(self, x, context=None, *, mask=None, bias=None, positions=None, context_positions=None):
        """Return the weights of each head, before dropout: (batch, heads, queries, keys)."""
        q, k, _, options = self._call(x, context, mask, bias, positions, context_positions)
        return attention_weights(q, k, **options)

    def project(self, x, context=None, *, mask=None, positions=None, context_positions=None):
        """Return q, k, v of all heads as attention sees them, norms and positions applied.

        The mask hides nothing here; it may know where the sample ends, and there stands the last query.
        """
        q, k, v, _ = self._call(x, context, mask, None, positions, context_positions)
        return q, k, v

    def _call(self, x, context, mask, bias, positions, context_positions):
        """Return the q, k, v and the options of this call of the core."""
        for_keys, for_values = layer_checks.contexts(x, context)
        q, k, v = self._projected(x, for_keys, for_values)
        stand = None
        if self.position is not None or positions is not None or context_positions is not None:
            stand = places(mask, q, k, positions, context_positions, same=for_keys is x)
            q, k = turned(self.position, q, k, stand.queries, stand.keys)
        if self.norm_last:
            q, k = self._normed(q, k)
        k, v = (k, v) if self.reads is None else head_ids.read(self.reads, k, v)
        if stand is not None:
            bias = biased(self.position, bias, q, k, stand, self.scale, self.scheme_heads)
        options = self._options(mask, bias)
        options["q_start"] = None if stand is None else stand.q_start
        return q, k, v, options

    def _options(self, mask, bias):
        return {"mask": mask, "bias": bias, "scale": self.scale, "softcap": self.softcap, "sinks": self.sinks}

    def _projected(self, x, for_keys, for_values):
        """Return q, k and v without positions, split into heads."""
        q_proj, k_proj, v_proj = self.q_proj, self.k_proj, self.v_proj
        layer_checks.check_input("x", x, q_proj)
        for context, linear in ((for_keys, k_proj), (for_values, v_proj)):
            if context is not x or linear.in_features != self.d_model:
                layer_checks.check_input("context", context, linear)
        q = _split(q_proj(x), self.num_heads)
        k = _split(k_proj(for_keys), self.num_kv_heads)
        v = _split(v_proj(for_values), self.num_kv_heads)
        return (q, k, v) if self.norm_last else (*self._normed(q, k), v)

    def _normed(self, q, k):
        return (q, k) if self.q_norm is None else (norm.normed(self.q_norm, q), norm.normed(self.k_norm, k))

    def _written(self, heads, x):
        """Return what the layer makes of its heads: gated, joined and projected."""
        joined = join_heads(heads)
        return self.out_proj(joined if self.gate_proj is None else joined * torch.sigmoid(self.gate_proj(x)))

    def _dropout(self):
        if not self.training or self.dropout == 0:
            return None
        return Dropout(self.dropout, torch.randint(2**31, (), device=self.out_proj.weight.device))

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        head_ids.save(self, destination, prefix)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        head_ids.load(self, state_dict, prefix, missing, errors)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention):
        """Return the same layer as ours, with copies of the weights."""
        return torch_mha.convert_from(cls, module)

    def to_torch(self, *, batch_first: bool = True) -> nn.MultiheadAttention:
        """Return the same layer as torch's, with copies of the weights."""
        return torch_mha.convert_to(self, batch_first)

    def extra_repr(self):
        names = "d_model", "num_heads", "num_kv_heads", "d_head", "position", "scale", "softcap", "dropout"
        given = [f"{name}={getattr(self, name)}" for name in names if getattr(self, name) is not None]
        given += [] if self.sinks is None else ["sinks=True"]
        return ", ".join(given + head_ids.said(self))
