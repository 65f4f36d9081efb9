"""How many bytes a forward pass of attention keeps for its backward pass, the projections left out."""

from mha.cost.sizes import counts, tensors

SOFTMAX_ITEMSIZE = 4  # logits and softmax have at least float32


def composed_activations(n, num_heads, d_head, *, n_k=None, num_kv_heads=None, d_value=None, batch=1, itemsize=2):
    """Return what plain tensor formulas keep: q, k, v and the weights, all of them in the precision of the softmax.

    A mask adds one byte for each of its entries; sinks add the exponentials and their sums.
    """
    kept = tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch)
    (itemsize,) = counts(itemsize=itemsize)
    return max(itemsize, SOFTMAX_ITEMSIZE) * (kept.q + kept.k + kept.v + kept.scores)


def fused_activations(n, num_heads, d_head, *, n_k=None, num_kv_heads=None, d_value=None, batch=1, itemsize=2):
    """Return what a fused operator keeps: q, k, v, the output, and the log-sum-exp of each row."""
    kept = tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch)
    (itemsize,) = counts(itemsize=itemsize)
    return itemsize * (kept.q + kept.k + kept.v + kept.output) + max(itemsize, SOFTMAX_ITEMSIZE) * kept.rows
