"""How many bytes attention moves between memory and processor, the projections left out."""

from mha.cost.sizes import counts, head_counts, tensors


def composed_traffic(n, num_heads, d_head, *, n_k=None, num_kv_heads=None, d_value=None, batch=1, itemsize=2):
    """Return the bytes that three separate operators move: scores, softmax, mix.   Book: {eq}`attention-bytes`.

    The n × n_k numbers of a head pass four times: the scores are written and read, and so are the weights. A mask
    takes nothing away from that.
    """
    moved = tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch)
    (itemsize,) = counts(itemsize=itemsize)
    return itemsize * (moved.q + moved.k + moved.v + moved.output + 4 * moved.scores)


def fused_traffic(n, num_heads, d_head, *, n_k=None, num_kv_heads=None, d_value=None, tile=None, batch=1, itemsize=2):
    """Return the bytes that one operator moves which never writes scores.   Book: {eq}`attention-bytes`.

    Each of q, k, v and the output passes once, and less is not possible. If only `tile` rows of queries fit the fast
    memory at a time, k and v are read once for each tile; the query heads of one key head share its tiles.
    """
    moved = tensors(n, num_heads, d_head, n_k, num_kv_heads, d_value, batch)
    (itemsize,) = counts(itemsize=itemsize)
    readings = 1
    if tile is not None:
        num_heads, num_kv_heads = head_counts(num_heads, num_kv_heads)
        readings = -(-n * num_heads // num_kv_heads // counts(tile=tile)[0])
    return itemsize * (moved.q + moved.output + readings * (moved.k + moved.v))
