"""How many bytes attention moves between memory and processor, the projections left out."""

import math

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


def tile_rows(memory, d_head, *, itemsize=2):
    """Return the side of the largest square tile that fits `memory` bytes of fast memory.   Book: {eq}`flash-traffic`.

    There lie its queries, keys and values at `itemsize` bytes a number, and its scores and sums of values at 4.
    """
    (memory,), (d_head, itemsize) = counts(memory=memory), counts(d_head=d_head, itemsize=itemsize)
    row = d_head * (3 * itemsize + 4)
    side = (math.isqrt(row**2 + 16 * memory) - row) // 8  # the root of 4 r² + row · r = memory
    if side == 0:
        raise ValueError(f"memory is {memory}: expected at least {row + 4}, a tile of one query and one key")
    return side


def flash_traffic(n, num_heads, d_head, *, memory, n_k=None, batch=1, itemsize=2):
    """Return the bytes that attention moves with tiles that fit `memory` bytes.   Book: {eq}`flash-traffic`.

    Queries and output pass once, keys and values once for each tile of queries, and one number of 4 bytes a row, its
    log-sum-exp, is written. Every query head has a key head of its own.
    """
    tile = tile_rows(memory, d_head, itemsize=itemsize)
    moved = fused_traffic(n, 1, d_head, n_k=n_k, tile=tile, batch=batch, itemsize=itemsize)
    (num_heads,) = counts(num_heads=num_heads)
    return num_heads * (moved + 4 * batch * n)
