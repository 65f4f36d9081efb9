"""The backward pass: the weights are computed anew from the rows' lse, by two kernels that write each gradient once.

    dq, dk, dv, dsinks = backward(d_out, q, k, v, out, lse, problem, d_lse=None)

`out` and `lse` (in base 2) are what `forward` gave, d_out and d_lse the gradients by them; d_out may have any strides.
One program adds up dk and dv for one tile of keys, over all heads that read them, another one dq for one tile of
queries: nothing is added atomically, so that the same call gives the same bits. dsinks is None without sinks.
"""

import torch
import triton
import triton.language as tl

from mha.kernels.dot_product.forward import heads_at_once, own_tile
from mha.kernels.dot_product.row_terms import row_terms, sink_gradient
from mha.kernels.dot_product.scores import cap_slope, capped, placed
from mha.kernels.language import head_at, kept, load_rows
from mha.kernels.layout import copied_once, is_wide, strides, unit_of
from mha.kernels.tile_sizes import padded

__all__ = ["backward", "dkdv_kernel", "dq_kernel", "gradients"]


def backward(d_out, q, k, v, out, lse, problem, *, d_lse=None):
    """Return the gradients of q, k and v in their dtypes, contiguous, and that of the sinks, summed over the batch."""
    d_out = copied_once(d_out)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    unit = unit_of(q, k, v, d_out)
    tensors = q, k, v, d_out, *row_terms(d_out, out, lse, d_lse)
    steps = [step for x in (q, k, v, d_out) for step in strides(x, unit)]
    options = {"UNIT": unit, "WIDE": is_wide(q, k, v, d_out, problem.bias)}
    if k.numel() or v.numel():
        _launch_dkdv(tensors, steps, dk, dv, problem, options)
    if q.numel():
        _launch_dq(tensors, steps, dq, problem, options)
    return dq, dk, dv, None if problem.sinks is None else sink_gradient(problem.sinks, lse, tensors[-1])


def _launch_dkdv(tensors, steps, dk, dv, problem, options):
    q, k, v, d_out, *_ = tensors
    num_heads, (batch, num_kv_heads, n_k, _) = q.shape[1], k.shape
    size, lists = problem.passes["dkdv"]
    group = num_heads // num_kv_heads
    at_once = max(1, heads_at_once(q, d_out, num_heads, lists) // group)
    dkdv_kernel[(-(-n_k // size.bn) * batch * num_kv_heads,)](
        *tensors, dk, dv, *steps, *_arguments(problem, lists), num_heads, group, at_once, q.shape[2], n_k,
        **_constants(q, v, problem, size, lists), **options, **size.options(),
    )  # fmt: skip


def _launch_dq(tensors, steps, dq, problem, options):
    q, k, v, *_ = tensors
    batch, num_heads, n_q, _ = q.shape
    size, lists = problem.passes["dq"]
    dq_kernel[(-(-n_q // size.bm) * batch * num_heads,)](
        *tensors, dq, *steps, *_arguments(problem, lists),
        num_heads, num_heads // k.shape[1], heads_at_once(k, v, num_heads, lists), n_q, k.shape[2],
        **_constants(q, v, problem, size, lists), **options, **size.options(),
    )  # fmt: skip


def _arguments(problem, lists):
    """Return the arguments of a kernel from `bias` to `added_p`."""
    mask = problem.start, int(len(problem.start) > 1), *lists.arguments()
    scales = problem.scale, *problem.base_2(), *problem.dropout_arguments()
    return *problem.bias_arguments(), *mask, *scales, problem.tables, problem.added_tables


def _constants(q, v, problem, size, lists):
    d, e = q.shape[-1], v.shape[-1]
    rule, added = problem.rules()
    widths = {"D": d, "E": e, "BD": padded(d), "BE": padded(e), "BM": size.bm, "BN": size.bn, "STAGES": size.stages}
    return widths | {"rule": rule, "added": added, "PRECISION": problem.precision, "IN_RUNS": lists.in_runs}


@triton.jit(do_not_specialize=["n_q", "n_k"])
def dkdv_kernel(
    q, k, v, d_out, shift, delta, dk, dv,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, d_out_b, d_out_h, d_out_n,
    bias, bias_b, bias_h, bias_i, bias_j, start, start_b, lists, line_b, line_h,
    slope, scale, cap, seed, p_drop, p, added_p, num_heads, group, heads_at_once, n_q, n_k,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
    IN_RUNS: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    place, head = own_tile(tl.cdiv(n_k, BN), heads_at_once)
    num_kv_heads = num_heads // group
    b, g = head // num_kv_heads, head % num_kv_heads
    tile = place
    if lists is not None:
        tile = tl.load(lists + 4 * (b * line_b + g * group * line_h + place))
    j, d, e = tile * BN + tl.arange(0, BN), tl.arange(0, BD), tl.arange(0, BE)
    k += head_at(b, g, k_b, k_h, UNIT)
    v += head_at(b, g, v_b, v_h, UNIT)
    keys = load_rows(k, j[:, None], d[None, :], k_n, n_k, D, D != BD, False, UNIT, WIDE)  # [BN, BD]
    values = load_rows(v, j[:, None], e[None, :], v_n, n_k, E, E != BE, False, UNIT, WIDE)  # [BN, BE]
    acc = (tl.zeros([BN, BD], tl.float32), tl.zeros([BN, BE], tl.float32))
    first = tl.load(start + b * start_b)

    for member in tl.range(0, group, disable_licm=True):  # what a head needs is not kept while others are served
        h = g * group + member
        begin, middle, end = 0, n_q // BM, tl.cdiv(n_q, BM)  # without lists: all queries, the last tile partial
        if lists is not None:
            record = lists + 4 * (b * line_b + h * line_h + place)
            begin, middle, end = tl.load(record + 1), tl.load(record + 2), tl.load(record + 3)
        how = (b, h, first, n_q, n_k, scale, cap, bias, bias_i, bias_j, p, added_p)
        if bias is not None:
            own_bias = bias + head_at(b, h, bias_b, bias_h, 1)
            how = (b, h, first, n_q, n_k, scale, cap, own_bias, bias_i, bias_j, p, added_p)
        row = (b * num_heads + h).to(tl.int64) * n_q
        of_head = (
            q + head_at(b, h, q_b, q_h, UNIT), q_n, d_out + head_at(b, h, d_out_b, d_out_h, UNIT), d_out_n,
            shift + row, delta + row,
        )  # fmt: skip
        acc = add_queries(acc, keys, values, j, of_head, lists, begin, middle, seed, p_drop, num_heads, how, rule,
                          added, D, E, BD, BE, BM, STAGES, PRECISION, IN_RUNS, False, UNIT, WIDE)  # fmt: skip
        acc = add_queries(acc, keys, values, j, of_head, lists, middle, end, seed, p_drop, num_heads, how, rule,
                          added, D, E, BD, BE, BM, 1, PRECISION, False, True, UNIT, WIDE)  # fmt: skip

    of_keys, of_values = acc
    row = head.to(tl.int64) * n_k + j[:, None]
    of_keys, is_key = (of_keys * slope).to(dk.dtype.element_ty), (j < n_k)[:, None]
    tl.store(dk + row * D + d[None, :], of_keys, mask=is_key & (d < D)[None, :])
    tl.store(dv + row * E + e[None, :], of_values.to(dv.dtype.element_ty), mask=is_key & (e < E)[None, :])


@triton.jit
def add_queries(
    acc, keys, values, j, of_head, lists, begin, end, seed, p_drop, num_heads, how,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BM: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr, IN_RUNS: tl.constexpr, PARTIAL: tl.constexpr,
    UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return (dk / slope [BN, BD], dv [BN, BE]) after more tiles of queries."""
    dk, dv = acc
    q, q_n, d_out, d_out_n, shift, delta = of_head
    _, _, _, n_q, _, _, _, bias, _, _, _, _ = how
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    first = first_tile(lists, begin, end, IN_RUNS)
    for m in tl.range(begin, end, num_stages=STAGES):
        i = tile_at(lists, m, first, IN_RUNS) * BM + tl.arange(0, BM)
        queries = load_rows(q, i[:, None], d[None, :], q_n, n_q, D, D != BD, not PARTIAL, UNIT, WIDE)  # [BM, BD]
        d_rows = load_rows(d_out, i[:, None], e[None, :], d_out_n, n_q, E, E != BE, not PARTIAL, UNIT, WIDE)  # [BM, BE]
        own_shift = tl.load(shift + i, mask=i < n_q, other=0.0)[None, :]
        own_delta = tl.load(delta + i, mask=i < n_q, other=0.0)[None, :]
        if PARTIAL or bias is not None or added is not None:
            d_rows = finite(d_rows)
        products = tl.dot(keys, tl.trans(queries), input_precision=PRECISION)  # [BN, BM]
        d_weights = tl.dot(values, tl.trans(d_rows), input_precision=PRECISION)
        weights, _d_scores, d_products = gradients(products, d_weights, own_shift, own_delta, i[None, :], j[:, None],
                                           seed, p_drop, num_heads, how, rule, added, PARTIAL, WIDE)  # fmt: skip
        dv = tl.dot(weights.to(d_rows.dtype), d_rows, dv, input_precision=PRECISION)
        if PARTIAL or bias is not None or added is not None:
            queries = finite(queries)
        dk = tl.dot(d_products.to(queries.dtype), queries, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=["n_q", "n_k"])
def dq_kernel(
    q, k, v, d_out, shift, delta, dq,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, d_out_b, d_out_h, d_out_n,
    bias, bias_b, bias_h, bias_i, bias_j, start, start_b, lists, line_b, line_h,
    slope, scale, cap, seed, p_drop, p, added_p, num_heads, group, heads_at_once, n_q, n_k,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
    IN_RUNS: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    place, head = own_tile(tl.cdiv(n_q, BM), heads_at_once)
    b, h = head // num_heads, head % num_heads
    tile, begin, middle, end = place, 0, n_k // BN, tl.cdiv(n_k, BN)  # without lists: all keys, the last tile partial
    if lists is not None:
        record = lists + 4 * (b * line_b + h * line_h + place)
        tile, begin, middle, end = tl.load(record), tl.load(record + 1), tl.load(record + 2), tl.load(record + 3)
    if bias is not None:
        bias += head_at(b, h, bias_b, bias_h, 1)
    how = (b, h, tl.load(start + b * start_b), n_q, n_k, scale, cap, bias, bias_i, bias_j, p, added_p)
    of_keys = (k + head_at(b, h // group, k_b, k_h, UNIT), k_n, v + head_at(b, h // group, v_b, v_h, UNIT), v_n)

    i, d, e = tile * BM + tl.arange(0, BM), tl.arange(0, BD), tl.arange(0, BE)
    q += head_at(b, h, q_b, q_h, UNIT)
    d_out += head_at(b, h, d_out_b, d_out_h, UNIT)
    row = head.to(tl.int64) * n_q + i
    of_rows = (
        load_rows(q, i[:, None], d[None, :], q_n, n_q, D, D != BD, False, UNIT, WIDE),  # [BM, BD]
        load_rows(d_out, i[:, None], e[None, :], d_out_n, n_q, E, E != BE, False, UNIT, WIDE),  # [BM, BE]
        tl.load(shift + row, mask=i < n_q, other=0.0)[:, None],
        tl.load(delta + row, mask=i < n_q, other=0.0)[:, None],
    )
    acc = tl.zeros([BM, BD], tl.float32)
    acc = add_keys(acc, of_rows, i, of_keys, lists, begin, middle, seed, p_drop, num_heads, how, rule, added,
                   D, E, BD, BE, BN, STAGES, PRECISION, IN_RUNS, False, UNIT, WIDE)  # fmt: skip
    acc = add_keys(acc, of_rows, i, of_keys, lists, middle, end, seed, p_drop, num_heads, how, rule, added,
                   D, E, BD, BE, BN, 1, PRECISION, False, True, UNIT, WIDE)  # fmt: skip
    at = dq + row[:, None] * D + d[None, :]
    tl.store(at, (acc * slope).to(dq.dtype.element_ty), mask=(i < n_q)[:, None] & (d < D)[None, :])


@triton.jit
def add_keys(
    dq, of_rows, i, of_keys, lists, begin, end, seed, p_drop, num_heads, how,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BN: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr, IN_RUNS: tl.constexpr, PARTIAL: tl.constexpr,
    UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return dq / slope [BM, BD] after more tiles of keys."""
    queries, d_rows, shift, delta = of_rows
    k, k_n, v, v_n = of_keys
    _, _, _, _, n_k, _, _, bias, _, _, _, _ = how
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    first = first_tile(lists, begin, end, IN_RUNS)
    for n in tl.range(begin, end, num_stages=STAGES):
        j = tile_at(lists, n, first, IN_RUNS) * BN + tl.arange(0, BN)
        keys = load_rows(k, j[:, None], d[None, :], k_n, n_k, D, D != BD, not PARTIAL, UNIT, WIDE)  # [BN, BD]
        values = load_rows(v, j[:, None], e[None, :], v_n, n_k, E, E != BE, not PARTIAL, UNIT, WIDE)  # [BN, BE]
        products = tl.dot(queries, tl.trans(keys), input_precision=PRECISION)  # [BM, BN]
        d_weights = tl.dot(d_rows, tl.trans(values), input_precision=PRECISION)
        _weights, _d_scores, d_products = gradients(products, d_weights, shift, delta, i[:, None], j[None, :],
                                     seed, p_drop, num_heads, how, rule, added, PARTIAL, WIDE)  # fmt: skip
        if PARTIAL or bias is not None or added is not None:
            keys = finite(keys)
        dq = tl.dot(d_products.to(keys.dtype), keys, dq, input_precision=PRECISION)
    return dq


@triton.jit
def gradients(
    products, d_weights, shift, delta, i, j, seed, p_drop, num_heads, how,
    rule: tl.constexpr, added: tl.constexpr, PARTIAL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return of each pair of a tile the weight that mixed the value, and the gradients of score and of scaled product.

    `d_weights` are the products of d_out and the values; whatever stands at a hidden pair, the results there are 0.
    """
    b, h, _, n_q, n_k, _, _, bias, _, _, _, _ = how
    before = capped(products, how)
    s = placed(before, i, j, how, rule, added, PARTIAL, WIDE)
    weights = tl.exp2(s - shift)
    mixed = weights
    if seed is not None:
        pair = (tl.cast(b * num_heads + h, tl.int64) * n_q + i) * n_k + j
        factor = tl.where(kept(tl.load(seed), pair, p_drop), 1.0 / (1.0 - p_drop), 0.0)
        mixed *= factor
        d_weights *= factor
    d_scores = weights * (d_weights - delta)
    d_products = d_scores * cap_slope(before, how)
    if PARTIAL or bias is not None or added is not None:
        see = s != float("-inf")
        mixed = tl.where(see, mixed, 0.0)
        d_scores = tl.where(see, d_scores, 0.0)
        d_products = tl.where(see, d_products, 0.0)
    return mixed, d_scores, d_products


@triton.jit
def first_tile(lists, begin, end, IN_RUNS: tl.constexpr):
    """Return what added to a place in the lists gives the tile there, if tiles follow one another."""
    first = 0
    if lists is not None and IN_RUNS:
        first = tl.load(lists + begin, mask=begin < end, other=0) - begin
    return first


@triton.jit
def tile_at(lists, place, first, IN_RUNS: tl.constexpr):
    """Return the tile at a place in the lists; without lists, the place is the tile."""
    tile = place + first
    if lists is not None and not IN_RUNS:
        tile = tl.load(lists + place)
    return tile


@triton.jit
def finite(x):
    """Return x with 0 in the place of NaN and infinities."""
    return tl.where(tl.abs(x.to(tl.float32)) < float("inf"), x, 0.0)
