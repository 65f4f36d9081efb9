"""The forward pass: one program mixes the values for one tile of queries, and keeps a running softmax.

    out, lse, max_logit, entropy = forward(q, k, v, problem, stats=False)

of q (b, h, i, d), k (b, g, j, d) and v (b, g, j, e), each with its own strides. lse, max_logit and entropy are float32
(b, h, i); without `stats` the last two are None, and the output has the same bits. max_logit and entropy are natural;
lse is in base 2 as the scores are, log₂e times the reference's: the backward pass subtracts the very same number.
"""

import torch
import triton
import triton.language as tl

from mha.kernels.dot_product.scores import scores
from mha.kernels.language import LN_2, LOG2_E, head_at, kept, load_rows
from mha.kernels.layout import is_wide, strides, unit_of
from mha.kernels.tile_sizes import padded

__all__ = ["forward", "forward_kernel"]

CACHE = 2**25  # bytes of keys and values that the programs of one moment may share


def forward(q, k, v, problem, *, stats=False):
    """Return out (b, h, i, e) in q's dtype, the rows' lse, with `stats` also max_logit and entropy, else None."""
    (batch, num_heads, n_q, d), (num_kv_heads, n_k, e) = q.shape, v.shape[1:]
    out = torch.empty(batch, num_heads, n_q, e, dtype=q.dtype, device=q.device)
    rows = [torch.empty(batch, num_heads, n_q, dtype=torch.float32, device=q.device) for _ in range(3 if stats else 1)]
    lse, max_logit, entropy = rows if stats else (*rows, None, None)
    if not lse.numel():
        return out, lse, max_logit, entropy
    size, lists = problem.passes["forward"]
    unit = unit_of(q, k, v, out)
    forward_kernel[(-(-n_q // size.bm) * batch * num_heads,)](
        q, k, v, out, lse, max_logit, entropy,
        *(step for x in (q, k, v, out) for step in strides(x, unit)),
        *problem.bias_arguments(), problem.sinks, problem.start, int(len(problem.start) > 1), *lists.arguments(),
        num_heads, num_heads // num_kv_heads, heads_at_once(k, v, num_heads, lists), n_q, n_k,
        *problem.base_2(), *problem.dropout_arguments(), problem.tables, problem.added_tables, *problem.rules(),
        D=d, E=e, BD=padded(d), BE=padded(e), BM=size.bm, BN=size.bn, PRECISION=problem.precision, STATS=stats,
        STAGES=1 if stats else size.stages,  # statistics take the registers that loading ahead would
        IN_RUNS=lists.in_runs, UNIT=unit, WIDE=is_wide(q, k, v, problem.bias), **size.options(),
    )  # fmt: skip
    return out, lse, max_logit, entropy


def heads_at_once(k, v, num_heads, lists):
    """Return how many heads to serve together: with lists, as many as the cache holds keys and values of."""
    if lists.table is None:
        return 1  # all tiles take as long: one head's follow one another
    of_group = k.shape[2] * (k.shape[3] + v.shape[3]) * k.element_size()
    return max(1, min(CACHE // max(of_group, 1) * (num_heads // k.shape[1]), k.shape[0] * num_heads))


@triton.jit(do_not_specialize=["n_q", "n_k"])
def forward_kernel(
    q, k, v, out, lse, max_logit, entropy,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, out_b, out_h, out_n,
    bias, bias_b, bias_h, bias_i, bias_j, sinks, start, start_b, lists, line_b, line_h,
    num_heads, group, heads_at_once, n_q, n_k, scale, cap, seed, p_drop, p, added_p,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr, STATS: tl.constexpr,
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
    k += head_at(b, h // group, k_b, k_h, UNIT)
    v += head_at(b, h // group, v_b, v_h, UNIT)

    i, d = tile * BM + tl.arange(0, BM), tl.arange(0, BD)
    q += head_at(b, h, q_b, q_h, UNIT)
    rows = load_rows(q, i[:, None], d[None, :], q_n, n_q, D, D != BD, False, UNIT, WIDE)  # [BM, BD]
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    mean = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BE], tl.float32)
    unusual = 0
    # Partial tiles come first: then the registers of the longer loop are free of what the shorter one needs.
    state = (acc, top, total, mean, unusual)
    state = attend(state, rows, i, k, v, k_n, v_n, lists, middle, end, seed, p_drop, num_heads, how, rule, added,
                   D, E, BD, BE, BN, 1, PRECISION, STATS, False, True, UNIT, WIDE)  # fmt: skip
    state = attend(state, rows, i, k, v, k_n, v_n, lists, begin, middle, seed, p_drop, num_heads, how, rule, added,
                   D, E, BD, BE, BN, STAGES, PRECISION, STATS, IN_RUNS, False, UNIT, WIDE)  # fmt: skip
    acc, top, total, mean, unusual = state

    row = head.to(tl.int64) * n_q + i
    is_row = i < n_q
    if STATS:
        tl.store(max_logit + row, tl.where((total != total) & (top < float("inf")), total, top * LN_2), mask=is_row)
        share = tl.where(total == 0.0, 1.0, total)
        tl.store(entropy + row, (tl.log2(share) - mean / share) * LN_2, mask=is_row)
    if sinks is not None:
        sink = tl.load(sinks + h).to(tl.float32) * LOG2_E
        higher = tl.maximum(top, sink)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        acc *= tl.exp2(top - shift)[:, None]
        total = total * tl.exp2(top - shift) + tl.exp2(sink - shift)
        top = higher
    total = tl.where(total == 0.0, 1.0, total)  # a row that sees nothing has acc 0 and top −inf
    tl.store(lse + row, top + tl.log2(total), mask=is_row)
    if seed is not None:
        total *= 1.0 - p_drop
    acc /= total[:, None]
    e = tl.arange(0, BE)[None, :]
    out += head_at(b, h, out_b, out_h, UNIT)
    at = out + i[:, None].to(tl.int64) * out_n * UNIT + e
    tl.store(at, acc.to(out.dtype.element_ty), mask=is_row[:, None] & (e < E))
    if unusual > 0:
        if bias is None and added is None:
            begin = middle
        tl.debug_barrier()  # other threads read what this one has stored
        add_unusual(out, top, q, i, k, v, out_n, q_n, k_n, v_n, lists, begin, end, seed, p_drop, num_heads, how, rule,
                    added, D, E, BD, BE, BM, BN, UNIT, WIDE)  # fmt: skip


@triton.jit
def own_tile(num_tiles, heads_at_once):
    """Return the place of this program's tile, and its head among those of all samples.

    `heads_at_once` heads are served together, so that their keys stay in the cache; among them place comes before head.
    """
    program = tl.program_id(0)
    first = program // (num_tiles * heads_at_once) * heads_at_once
    heads = tl.minimum(heads_at_once, tl.num_programs(0) // num_tiles - first)
    program -= first * num_tiles
    return program // heads, first + program % heads


@triton.jit
def attend(
    state, rows, i, k, v, k_n, v_n, lists, begin, end, seed, p_drop, num_heads, how,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BN: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr, STATS: tl.constexpr, IN_RUNS: tl.constexpr,
    PARTIAL: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return (acc [BM, BE], top, total, mean [BM], unusual) after more tiles of keys.

    acc and total are Σ p v and Σ p of the keys so far, with p = exp2(s − top); mean is Σ p (s − top), for the entropy.
    A row may not see every key of a tile that a mask or a bias crosses, and 0 · NaN is NaN: infinite and NaN values of
    such a tile are left out, and unusual is 1 if there were any.
    """
    acc, top, total, mean, unusual = state
    b, h, _, n_q, n_k, _, _, bias, _, _, _, _ = how
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    first = 0
    if lists is not None and IN_RUNS:
        first = tl.load(lists + begin, mask=begin < end, other=0) - begin
    for n in tl.range(begin, end, num_stages=STAGES):
        column = n + first
        if lists is not None and not IN_RUNS:
            column = tl.load(lists + n)
        j = column * BN + tl.arange(0, BN)
        keys = load_rows(k, j[None, :], d[:, None], k_n, n_k, D, D != BD, not PARTIAL, UNIT, WIDE)  # [BD, BN]
        products = tl.dot(rows, keys, input_precision=PRECISION)
        s = scores(products, i[:, None], j[None, :], how, rule, added, PARTIAL, WIDE)  # [BM, BN]

        higher = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # of a row that has seen no key yet
        weights = tl.exp2(s - shift[:, None])
        rescale = tl.exp2(top - shift)
        if STATS:
            moved = tl.where(top == float("-inf"), 0.0, top - shift)
            below = tl.where(s == float("-inf"), 0.0, s - shift[:, None])
            mean = rescale * (mean + total * moved) + tl.sum(weights * below, 1)
        total = rescale * total + tl.sum(weights, 1)
        acc *= rescale[:, None]
        top = higher

        if seed is not None:
            pair = ((b * num_heads + h).to(tl.int64) * n_q + i[:, None]) * n_k + j[None, :]
            weights = tl.where(kept(tl.load(seed), pair, p_drop), weights, 0.0)
        values = load_rows(v, j[:, None], e[None, :], v_n, n_k, E, E != BE, not PARTIAL, UNIT, WIDE)  # [BN, BE]
        if PARTIAL or bias is not None or added is not None:
            left_out = is_unusual(values)
            unusual = tl.maximum(unusual, tl.max(left_out.to(tl.int32)))
            values = tl.where(left_out, 0.0, values)
        acc = tl.dot(weights.to(values.dtype), values, acc, input_precision=PRECISION)
    return acc, top, total, mean, unusual


@triton.jit
def add_unusual(
    out, top, q, i, k, v, out_n, q_n, k_n, v_n, lists, begin, end, seed, p_drop, num_heads, how,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Add to the output what the infinite and NaN values of some tiles give to the rows that see them, key by key.

    It runs behind everything else, on 16 columns at a time, so that it takes no registers from the usual case.
    """
    b, h, _, n_q, n_k, _, _, _, _, _, _, _ = how
    i, shift = i[:, None], tl.where(top == float("-inf"), 0.0, top)[:, None]  # [BM, 1]
    part = tl.arange(0, 16)[None, :]
    for strip in range(begin * (BN // 16), end * (BN // 16)):  # of 16 keys
        column = strip // (BN // 16)
        if lists is not None:
            column = tl.load(lists + column)
        first = column * BN + strip % (BN // 16) * 16
        keys = first + tl.arange(0, 16)[:, None]
        values = load_rows(v, keys, tl.arange(0, BE)[None, :], v_n, n_k, E, E != BE, False, UNIT, WIDE)
        found = tl.max(is_unusual(values).to(tl.int32), 1)  # [16]
        for within in range(16):
            if tl.max(tl.where(tl.arange(0, 16) == within, found, 0)) > 0:
                j = tl.full([1, 1], 0, tl.int32) + first + within
                product = tl.zeros([BM, 1], tl.float32)
                for at_d in range(0, BD, 16):
                    rows = load_rows(q, i, at_d + part, q_n, n_q, D, True, False, UNIT, WIDE).to(tl.float32)
                    key = load_rows(k, j, at_d + part, k_n, n_k, D, True, False, UNIT, WIDE).to(tl.float32)
                    product += tl.sum(rows * key, 1)[:, None]
                s = scores(product, i, j, how, rule, added, True, WIDE)
                weight = tl.exp2(s - shift)
                if seed is not None:
                    pair = ((b * num_heads + h).to(tl.int64) * n_q + i) * n_k + j
                    weight = tl.where(kept(tl.load(seed), pair, p_drop), weight, 0.0)
                for at_e in range(0, BE, 16):
                    e = at_e + part
                    value = load_rows(v, j, e, v_n, n_k, E, True, False, UNIT, WIDE).to(tl.float32)
                    at = out + i.to(tl.int64) * out_n * UNIT + e  # [BM, 16]
                    mask = (s != float("-inf")) & is_unusual(value)
                    given = tl.load(at, mask=mask, other=0.0).to(tl.float32) + weight * value
                    tl.store(at, given.to(out.dtype.element_ty), mask=mask)


@triton.jit
def is_unusual(x):
    return (tl.abs(x.to(tl.float32)) < float("inf")) == 0
