"""Native sparse attention's choice of blocks: means of blocks say which blocks to read (Yuan et al. 2025).

The meaning of `mha.reference`, computed for what is read: each query meets one mean a block and then the keys of its
chosen blocks, n²/block_size + n · num_blocks · block_size pairs. The keys of the blocks are gathered query by query.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from mha import shapes
from mha.integers import count
from mha.masks.terms import causal_and_lengths
from mha.nn import checks, formula
from mha.nn.dot_product import attention, attention_weights
from mha.nn.visible import table

__all__ = ["BlockSelection", "block_selection_attention", "chosen_blocks", "pooled_blocks"]

FORM = "block selection"


def pooled_blocks(x: "Float[Tensor, '*b g j d']", block_size, *, lengths=None) -> "Float[Tensor, '*b g c d']":
    """Return the mean of each block of neighbouring rows; the last has what is left. Padding behind does not count."""
    checks.tensors(x=x)
    shapes.check_rank("x", x, ("heads", "length", "width"))
    real = (torch.arange(x.shape[-2], device=x.device) < _ends(x, lengths))[..., None]
    blocks = _cut(torch.where(real, formula.wide(x), 0.0), count("block_size", block_size, least=1))
    sizes = _cut(real.to(blocks.dtype), block_size).sum(-2)
    return (blocks.sum(-2) / sizes.clamp(min=1)).to(x.dtype)


def chosen_blocks(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    *,
    block_size,
    num_blocks,
    mask=None,
    scale=None,
    q_start=None,
) -> "Int[Tensor, '*b g i s']":
    """Return which blocks each query reads, best first, −1 where it has no more to choose from.

    A block is worth the weight of its mean in a softmax over the means, summed over the query heads that share the key
    head; of equals the earlier is chosen. With `masks.causal` the query's own block comes first, and the mean of
    another counts once the block lies wholly behind: before, it would tell what is to come.
    """
    checks.tensors(q=q, k=k)
    call = shapes.check_blocks(q, k, None, None, block_size, num_blocks, mask=mask, scale=scale, q_start=q_start)
    q, k = (x.expand(*call.batch_shape, *x.shape[-3:]) for x in (q, k))
    pooled, whole, own = _summaries(call, k, block_size)
    return _best(call, q, pooled, whole, own, num_blocks)


def block_selection_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    gates: "Float[Tensor, '*b h i 2']",
    *,
    block_size,
    num_blocks,
    mask=None,
    scale=None,
    q_start=None,
) -> "Float[Tensor, '*b h i e']":
    """Attend to the means of all blocks and to the keys of the chosen blocks; the gates weigh the two answers.

    `mask` is `masks.causal`, `masks.lengths(n)` or both. No gradient passes the choice itself; the means that make it
    are learned through their own answer, whose gate is gates[…, 0].
    """
    checks.tensors(q=q, k=k, v=v, gates=gates)
    call = shapes.check_blocks(q, k, v, gates, block_size, num_blocks, mask=mask, scale=scale, q_start=q_start)
    q, k, v = (x.expand(*call.batch_shape, *x.shape[-3:]) for x in (q, k, v))
    pooled, whole, own = _summaries(call, k, block_size)
    pooled_v = pooled_blocks(v, block_size, lengths=causal_and_lengths(call.mask, FORM)[1])
    by_mean = attention(q, pooled, pooled_v, mask=whole, scale=call.scale)
    by_key = _read(call, q, k, v, _best(call, q, pooled, whole, own, num_blocks), block_size)
    return gates[..., :1] * by_mean + gates[..., 1:] * by_key


class BlockSelection(nn.Module):
    """Block selection as the core of a `MultiHeadAttention`: the gates are sigmoids of what each query head asks."""

    supports = frozenset({"causal", "padding", "cross"})
    reads_places = True  # one last query under `masks.causal` is another call than one without a mask

    def __init__(self, num_heads, d_head, *, block_size, num_blocks, device=None, dtype=None):
        super().__init__()
        self.block_size = count("block_size", block_size, least=1)
        self.num_blocks = count("num_blocks", num_blocks, least=1)
        shape = count("num_heads", num_heads, least=1), count("d_head", d_head, least=1), 2
        self.gate = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the gates to one half each, whatever is asked."""
        nn.init.zeros_(self.gate)

    def forward(
        self, q, k, v, *, mask=None, bias=None, scale=None, softcap=None, sinks=None, q_start=None, dropout=None
    ):
        """Return what `block_selection_attention` does; the options that it lacks are refused."""
        shapes.refuse(FORM, bias=bias, softcap=softcap, sinks=sinks, dropout=dropout)
        shapes.check_shape("gate", self.gate, (q.shape[-3], q.shape[-1], 2))
        gates = torch.sigmoid(q @ self.gate)
        sizes = {"block_size": self.block_size, "num_blocks": self.num_blocks}
        return block_selection_attention(q, k, v, gates, mask=mask, scale=scale, q_start=q_start, **sizes)

    def extra_repr(self):
        num_heads, d_head, _ = self.gate.shape
        return f"{num_heads}, {d_head}, block_size={self.block_size}, num_blocks={self.num_blocks}"


def _cut(x, size):
    """Cut rows (…, j, d) into blocks (…, c, size, d), the last one filled up with zeros."""
    n = x.shape[-2]
    number = -(-n // size)
    return F.pad(x, (0, 0, 0, number * size - n)).unflatten(-2, (number, size))


def _ends(x, lengths):
    """Return where the keys of each sample end: (…, 1, 1)."""
    if lengths is None:
        return torch.full((1, 1), x.shape[-2], device=x.device)
    return table(lengths, x.device).reshape(*x.shape[:-3], 1, 1)


def _positions(call, device):
    """Return where the queries stand: (…, 1, i, 1)."""
    start = table(call.q_start, device)
    start = start if start.ndim == 0 else start.reshape(*call.batch_shape, 1, 1, 1)
    return start + torch.arange(call.n_q, device=device)[:, None]


def _summaries(call, k, block_size):
    """Return the mean key of each block, and who may read it: which blocks are whole, and own, (b, 1, i, c) each."""
    causal, lengths = causal_and_lengths(call.mask, FORM)
    first, positions = torch.arange(0, call.n_k, block_size, device=k.device), _positions(call, k.device)
    there = first < _ends(k, lengths)[..., None]
    whole = there & (first + block_size <= positions + 1 if causal else torch.ones_like(positions, dtype=torch.bool))
    own = there & causal & (first == positions // block_size * block_size)
    every = *call.batch_shape, 1, call.n_q, len(first)
    whole, own = (x.expand(every).reshape(call.batch, *every[-3:]) for x in (whole, own))
    return pooled_blocks(k, block_size, lengths=lengths), whole, own


@torch.no_grad()
def _best(call, q, pooled, whole, own, num_blocks):
    """Return the most valuable blocks of each query and key head (…, g, i, s), −1 for none."""
    weights = attention_weights(q, pooled, mask=whole, scale=call.scale)
    by_group = weights.unflatten(-3, (call.num_kv_heads, -1)).sum(-3)
    whole, own = (x.reshape(*call.batch_shape, *x.shape[-3:]) for x in (whole, own))
    worth = torch.where(own, torch.inf, torch.where(whole, by_group, -torch.inf))
    order = worth.argsort(dim=-1, descending=True, stable=True)[..., :num_blocks]
    return torch.where(worth.gather(-1, order) > -torch.inf, order, -1)


def _read(call, q, k, v, chosen, block_size):
    """Return what each query finds in the keys of its chosen blocks, gathered for it: (…, h, i, e)."""
    causal, lengths = causal_and_lengths(call.mask, FORM)
    slots = (chosen[..., None] * block_size + torch.arange(block_size, device=q.device)).flatten(-2)
    see = (chosen >= 0).repeat_interleave(block_size, -1) & (slots < _ends(k, lengths)[..., None])
    if causal:
        see = see & (slots <= _positions(call, q.device))
    groups, sharing = call.num_kv_heads, call.num_heads // call.num_kv_heads
    each = call.batch * groups * call.n_q  # one batch entry a query and key head
    keys, values = (_rows(_cut(x, block_size), chosen).reshape(each, 1, slots.shape[-1], x.shape[-1]) for x in (k, v))
    asking = q.unflatten(-3, (groups, sharing)).transpose(-2, -3).reshape(each, 1, sharing, q.shape[-1])
    found = attention(asking, keys, values, mask=see.reshape(each, 1, 1, slots.shape[-1]), scale=call.scale)
    found = found.reshape(*call.batch_shape, groups, call.n_q, sharing, v.shape[-1])
    return found.transpose(-2, -3).flatten(-4, -3)


def _rows(blocks, chosen):
    """Return the chosen blocks (…, g, i, s) of blocks (…, g, c, size, d), one a row."""
    *lead, number, size, width = blocks.shape
    first = torch.arange(math.prod(lead), device=blocks.device).reshape(*lead, 1, 1) * number
    rows = blocks.reshape(math.prod(lead) * number, size * width)
    return rows.index_select(0, (first + chosen.clamp(min=0)).flatten())
