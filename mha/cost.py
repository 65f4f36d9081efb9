"""What attention costs: a formula a function, in exact integers."""

from mha import shapes
from mha.integers import count


def attention_parameters(d_model, num_heads, *, num_kv_heads=None, d_head=None, bias=True):
    """Count the parameters of the four projections.   Book: {eq}`attention-parameters`.

    With d_head = d_model / num_heads the count does not depend on the number of heads.
    """
    d_q, d_kv = _widths(d_model, num_heads, num_kv_heads, d_head)
    weights = 2 * d_model * d_q + 2 * d_model * d_kv
    return weights + bias * (d_q + 2 * d_kv + d_model)


def attention_flops(n, d_model, num_heads, *, n_k=None, num_kv_heads=None, d_head=None, pairs=None):
    """Count the floating-point operations of one sequence, two per multiply-add.   Book: {eq}`attention-flops`.

    `n_k` is the length of the context, n for self-attention. `pairs` is the number of visible (query, key) pairs of
    one head, all n · n_k unless a mask skips some: `mask.pairs(n, n_k)`. Softmax, biases and masks are not counted.
    """
    d_q, d_kv = _widths(d_model, num_heads, num_kv_heads, d_head)
    n = count("n", n)
    n_k = n if n_k is None else count("n_k", n_k)
    pairs = n * n_k if pairs is None else count("pairs", pairs)
    if pairs > n * n_k:
        raise ValueError(f"pairs is {pairs}: expected at most n · n_k = {n * n_k}, the pairs of one head")
    projections = 2 * n * d_model * 2 * d_q + 2 * n_k * d_model * 2 * d_kv
    scores_and_mix = 2 * pairs * 2 * d_q
    return projections + scores_and_mix


def _widths(d_model, num_heads, num_kv_heads, d_head):
    """Return the widths of all query heads and of all key heads together."""
    d_model, num_heads = count("d_model", d_model, least=1), count("num_heads", num_heads, least=1)
    if d_head is None:
        shapes.check_heads(d_model, num_heads)
        d_head = d_model // num_heads
    d_head = count("d_head", d_head, least=1)
    num_kv_heads = num_heads if num_kv_heads is None else count("num_kv_heads", num_kv_heads, least=1)
    shapes.check_groups(num_heads, num_kv_heads)
    return num_heads * d_head, num_kv_heads * d_head
