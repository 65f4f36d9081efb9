"""Native sparse attention's choice of blocks: means of blocks say which blocks to read (Yuan et al., 2025).

Letters beside those of `dot_product`: c block of keys, s chosen block. Query heads that share a key head read the same
blocks. The paper compresses a block by a small network, always reads the first block and the one before the query's
own too, and adds a window as a third answer; here a block's mean stands for it, only the query's own block is certain,
and a window is `attention` with a mask.
"""

import numpy as np

from mha import shapes
from mha.masks.terms import causal_and_lengths
from mha.reference.dot_product import attention, attention_weights

FORM = "block selection"


def pooled_blocks(x: "Float[Array, '*b g j d']", block_size, *, lengths=None) -> "Float[Array, '*b g c d']":
    """Return the mean of each block of neighbouring rows; the last has what is left. Padding behind does not count."""
    x = shapes.float64("x", x)
    ends = np.full(x.shape[:-3], x.shape[-2]) if lengths is None else np.asarray(lengths).reshape(x.shape[:-3])
    counts = (np.arange(x.shape[-2]) < ends[..., None])[..., None, :, None]
    x = np.where(counts, x, 0.0)
    means = []
    for first in range(0, x.shape[-2], block_size):
        block = slice(first, first + block_size)
        means.append(x[..., block, :].sum(-2) / np.maximum(counts[..., block, :].sum(-2), 1))
    return np.stack(means, -2) if means else x


def chosen_blocks(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    *,
    block_size,
    num_blocks,
    mask=None,
    scale=None,
    q_start=None,
) -> "Int[Array, '*b g i s']":
    """Return which blocks each query reads, best first, −1 where it has no more to choose from.

    A block is worth the weight of its mean in a softmax over the means, summed over the query heads that share the key
    head; of equals the earlier is chosen. With `masks.causal` the query's own block comes first, and the mean of
    another counts once the block lies wholly behind: before, it would tell what is to come.
    """
    call = shapes.check_blocks(q, k, None, None, block_size, num_blocks, mask=mask, scale=scale, q_start=q_start)
    q, k = (np.broadcast_to(x, (*call.batch_shape, *x.shape[-3:])) for x in (q, k))
    pooled, whole, own = summaries(call, k, block_size)
    weights = attention_weights(q, pooled, mask=whole, scale=scale)
    heads = call.num_kv_heads, call.num_heads // call.num_kv_heads
    by_group = weights.reshape(*weights.shape[:-3], *heads, *weights.shape[-2:]).sum(-3)
    whole, own = (x.reshape(*call.batch_shape, 1, *x.shape[-2:]) for x in (whole, own))
    worth = np.where(own, np.inf, np.where(whole, by_group, -np.inf))
    order = np.argsort(-worth, axis=-1, kind="stable")[..., :num_blocks]
    return np.where(np.take_along_axis(worth, order, -1) > -np.inf, order, -1)


def block_selection_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    gates: "Float[Array, '*b h i 2']",
    *,
    block_size,
    num_blocks,
    mask=None,
    scale=None,
    q_start=None,
) -> "Float[Array, '*b h i e']":
    """Attend to the means of all blocks and to the keys of the chosen blocks; the gates weigh the two answers.

    `mask` is `masks.causal`, `masks.lengths(n)` or both. No gradient passes the choice itself; the means that make it
    are learned through their own answer, whose gate is gates[…, 0].
    """
    call = shapes.check_blocks(q, k, v, gates, block_size, num_blocks, mask=mask, scale=scale, q_start=q_start)
    q, k, v = (np.broadcast_to(x, (*call.batch_shape, *x.shape[-3:])) for x in (q, k, v))
    pooled_k, whole, _ = summaries(call, k, block_size)
    pooled_v = pooled_blocks(v, block_size, lengths=causal_and_lengths(call.mask, FORM)[1])
    chosen = chosen_blocks(q, k, block_size=block_size, num_blocks=num_blocks, mask=mask, scale=scale, q_start=q_start)
    block_of_key = np.arange(call.n_k) // block_size
    read = (chosen[..., None] == block_of_key).any(-2)
    read = np.repeat(read, call.num_heads // call.num_kv_heads, axis=-3)
    read = np.broadcast_to(read if call.mask is None else read & shapes.visible(call), call.weights_shape)
    by_mean = attention(q, pooled_k, pooled_v, mask=whole, scale=scale)
    by_key = attention(q, k, v, mask=read.reshape(call.batch, *call.weights_shape[-3:]), scale=scale)
    return gates[..., :1] * by_mean + gates[..., 1:] * by_key


def summaries(call, k, block_size):
    """Return the mean key of each block, and who may read it: which blocks are whole, and own, (b, 1, i, c) each."""
    causal, lengths = causal_and_lengths(call.mask, FORM)
    first = np.arange(0, call.n_k, block_size)
    ends = np.full(call.batch, call.n_k) if lengths is None else lengths
    positions = (np.zeros(call.batch, int) + call.q_start)[:, None, None, None] + np.arange(call.n_q)[:, None]
    there = first < ends[:, None, None, None]
    whole = there & (first + block_size <= positions + 1 if causal else np.ones_like(positions, bool))
    own = there & causal & (first == positions // block_size * block_size)
    return pooled_blocks(k, block_size, lengths=lengths), whole, own
