"""How many bytes a call of attention holds at once beyond its inputs, the projections left out.

`itemsize` bytes a number, those of the scores and of their softmax too. With `gradients` a call is followed by its
backward pass, whose result are the gradients of q, k and v.
"""

from mha.cost.sizes import counts, tensors

ROW_ITEMSIZE = 4  # the log-sum-exp of a row has float32


def composed_peak(
    n, num_heads, d_head, *, n_k=None, num_kv_heads=None, d_value=None, batch=1, itemsize=2, gradients=False
):
    """Return the most that plain tensor formulas hold.   Book: {eq}`peak-bytes`.

    Two squares a head: the softmax reads the scores while it writes the weights. With `gradients` three: the weights,
    their gradient, and that of the scores, which is written while both are read; beside them lie the output, its
    gradient and that of v.
    """
    held = tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch)
    (itemsize,) = counts(itemsize=itemsize)
    if gradients:
        squares = held.scores + max(2 * held.scores, held.q + held.k)
        return itemsize * (squares + 2 * held.output + held.v)
    return itemsize * (held.scores + max(held.scores, held.output))


def fused_peak(
    n, num_heads, d_head, *, n_k=None, num_kv_heads=None, d_value=None, batch=1, itemsize=2, gradients=False
):
    """Return the most that a fused operator holds, its tiles left out.   Book: {eq}`peak-bytes`.

    The output and the log-sum-exp of each row; with `gradients` those of the output, of q, k and v as well.
    """
    held = tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch)
    (itemsize,) = counts(itemsize=itemsize)
    forward = itemsize * held.output + ROW_ITEMSIZE * held.rows
    return forward + gradients * itemsize * (held.output + held.q + held.k + held.v)
