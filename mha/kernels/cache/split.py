"""Few queries, many keys: the keys of a sample are split among programs, and the parts are merged by their lse.

All query heads that read one key head are rows of one tile, so each key and value is read once. A program finds its
part from the length of its sample on the device; of a part without keys nothing is read, computed or written.
"""

import triton
import triton.language as tl

from mha.kernels.language import LN_2, LOG2_E, head_at, rows_at, tanh

__all__ = ["merge_kernel", "split_kernel"]


@triton.jit
def visible_range(row, n_q, n_k, left, right, start, starts, lengths, b):
    """Return where the keys begin and end that query `row` sees, one number or a vector of rows, and those of all."""
    n = tl.cast(n_k, tl.int64)
    if lengths is not None:
        n = tl.maximum(tl.minimum(tl.load(lengths + b).to(tl.int64), n_k), 0)
    if starts is not None:
        first = tl.load(starts + b).to(tl.int64)
    elif start is not None:
        first = tl.cast(start, tl.int64)
    else:
        first = tl.maximum(n - n_q, tl.minimum(n_k - n_q, 0))
    low, high = n * 0, n
    row_low, row_high = row * 0 + low, row * 0 + high
    if left is not None:
        low = tl.minimum(tl.maximum(first - left, 0), n)
        row_low = tl.minimum(tl.maximum(first + row - left, 0), n)
    if right is not None:
        high = tl.minimum(tl.maximum(first + n_q + right, 0), n)
        row_high = tl.minimum(tl.maximum(first + row + right + 1, 0), n)
    return row_low.to(tl.int32), row_high.to(tl.int32), low.to(tl.int32), high.to(tl.int32)


@triton.jit
def part_size(low, high, parts, BN: tl.constexpr):
    """Return how many keys each part has: as many for all, in whole tiles."""
    return tl.cdiv(tl.cdiv(tl.maximum(high - low, 0), BN), parts) * BN


@triton.jit
def keys_at(
    j, end, table, stride_entry, stride_page, stride_slot, PAGE: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr
):
    """Return where keys j lie within a head. `table` points at the sample's page numbers, if there are pages."""
    if PAGE is None:
        at = rows_at(j, stride_slot, UNIT, WIDE)
    else:
        page = tl.load(table + (j // PAGE) * stride_entry, mask=j < end, other=0)
        at = head_at(page, j % PAGE, stride_page, stride_slot, UNIT)
    return at


@triton.jit
def what_is_seen(see, v):
    """Return the NaN and the infinities among values where a row sees them, 0 elsewhere: [BM, BE] of [BN, BE]."""
    v = v.to(tl.float32)
    kind = tl.where(v != v, 65536.0, tl.where(v == float("inf"), 1.0, tl.where(v == float("-inf"), 256.0, 0.0)))
    counts = tl.dot(see.to(tl.bfloat16), kind.to(tl.bfloat16)).to(tl.int32)  # of each kind, at most BN, fewer than 256
    up, down, nan = (counts & 255) != 0, (counts & 65280) != 0, counts >= 65536
    infinite = tl.where(up, float("inf"), tl.where(down, float("-inf"), 0.0))
    return tl.where(nan | (up & down), float("nan"), infinite)


@triton.jit(do_not_specialize=["n_k", "start", "left", "right", "parts", "part_stride"])
def split_kernel(
    q, k, v, out, lse, sinks, table, lengths, starts, n_q, n_k, start, left, right, parts, part_stride,
    stride_qb, stride_qh, stride_qi, stride_qd,
    stride_kb, stride_kg, stride_kj, stride_kd,
    stride_vb, stride_vg, stride_vj, stride_ve,
    stride_table, stride_entry, num_groups, group, scale, softcap,
    D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    PAGE: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr, WHOLE: tl.constexpr, UNEVEN: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    part, rest = program % parts, program // parts
    blocks = tl.cdiv(group * n_q, BM)
    block, rest = rest % blocks, rest // blocks
    b, g = rest // num_groups, rest % num_groups

    row = block * BM + tl.arange(0, BM)  # of the group: its heads, one after the other, each with its queries
    h, i = g * group + row // n_q, row % n_q
    row_low, row_high, low, high = visible_range(i, n_q, n_k, left, right, start, starts, lengths, b)
    size = part_size(low, high, parts, BN)
    begin = low + part * size
    end = tl.minimum(begin + size, high)
    if (begin >= end) & (not WHOLE):
        return

    d, e = tl.arange(0, BD), tl.arange(0, BE)
    real = row < group * n_q
    q_rows = q + head_at(b, h, stride_qb, stride_qh, UNIT) + rows_at(i, stride_qi, UNIT, True)
    q_columns, k_columns = rows_at(d, stride_qd, 1, True), rows_at(d, stride_kd, 1, WIDE)
    v_columns = rows_at(e, stride_ve, 1, WIDE)
    q_tile = tl.load(q_rows[:, None] + q_columns[None, :], mask=real[:, None] & (d < D)[None, :], other=0.0)
    if PAGE is None:
        k += head_at(b, g, stride_kb, stride_kg, UNIT)
        v += head_at(b, g, stride_vb, stride_vg, UNIT)
    else:  # a page is what a sample would be
        k += rows_at(g, stride_kg, UNIT, True)
        v += rows_at(g, stride_vg, UNIT, True)
        table += b.to(tl.int64) * stride_table

    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BE], tl.float32)
    for j0 in range(begin, end, BN):
        j = j0 + tl.arange(0, BN)
        there = (j < end)[:, None]
        k_rows = k + keys_at(j, end, table, stride_entry, stride_kb, stride_kj, PAGE, UNIT, WIDE)
        k_tile = tl.load(k_rows[:, None] + k_columns[None, :], mask=there & (d < D)[None, :], other=0.0)  # [BN, BD]
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision=PRECISION) * scale  # [BM, BN]
        if softcap is not None:
            scores = softcap * tanh(scores / softcap)
        see = (j >= row_low[:, None]) & (j < row_high[:, None])
        scores = tl.where(see, scores * LOG2_E, float("-inf"))

        new_top = tl.maximum(top, tl.max(scores, 1))
        pivot = pivot_of(new_top)
        weights, rescale = tl.exp2(scores - pivot[:, None]), tl.exp2(top - pivot)
        total = total * rescale + tl.sum(weights, 1)
        acc, top = acc * rescale[:, None], new_top

        v_rows = v + keys_at(j, end, table, stride_entry, stride_vb, stride_vj, PAGE, UNIT, WIDE)
        v_tile = tl.load(v_rows[:, None] + v_columns[None, :], mask=there & (e < E)[None, :], other=0.0)  # [BN, BE]
        if UNEVEN:  # a value that some rows do not see may be NaN
            finite = tl.abs(v_tile.to(tl.float32)) < float("inf")
            if tl.min(finite.to(tl.int32)) == 0:
                acc += what_is_seen(see, v_tile)
            v_tile = tl.where(finite, v_tile, 0.0)
        acc = tl.dot(weights.to(v_tile.dtype), v_tile, acc, input_precision=PRECISION)

    if WHOLE and sinks is not None:
        acc, top, total = with_sink(acc, top, total, tl.load(sinks + h, mask=real, other=0.0).to(tl.float32) * LOG2_E)
    place = tl.cast(part, tl.int64) * part_stride + (b * num_groups * group + h) * n_q + i
    total, log_sum = finished(top, total)
    tl.store(lse + place, log_sum * LN_2 if WHOLE else log_sum, mask=real)
    tl.store(out + place[:, None] * E + e[None, :], acc / total[:, None], mask=real[:, None] & (e < E)[None, :])


@triton.jit
def pivot_of(top):
    """Return what may be subtracted before exp2: the largest score, or 0 where there is none."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def with_sink(acc, top, total, sink):
    """Return the sums with one more key, whose score is `sink` and whose value is 0."""
    new_top = tl.maximum(top, sink)
    pivot = pivot_of(new_top)
    rescale = tl.exp2(top - pivot)
    return acc * rescale[:, None], new_top, total * rescale + tl.exp2(sink - pivot)


@triton.jit
def finished(top, total):
    """Return what to divide by, and the base-2 logarithm of the sum: 1 and −inf where nothing was seen."""
    divisor = tl.where(total == 0, 1.0, total)
    return divisor, tl.where(total == 0, float("-inf"), top + tl.log2(divisor))


@triton.jit(do_not_specialize=["n_k", "start", "left", "right", "parts", "part_stride"])
def merge_kernel(
    part_out, part_lse, out, lse, sinks, lengths, starts, n_q, n_k, start, left, right, parts, part_stride,
    num_heads,
    E: tl.constexpr, BE: tl.constexpr, BN: tl.constexpr, MOST: tl.constexpr, BS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64)  # one row of one head
    b, h, i = place // n_q // num_heads, place // n_q % num_heads, place % n_q
    _, _, low, high = visible_range(i.to(tl.int32), n_q, n_k, left, right, start, starts, lengths, b)
    alive = tl.cdiv(tl.maximum(high - low, 0), tl.maximum(part_size(low, high, parts, BN), 1))

    s = tl.arange(0, MOST)
    lses = tl.load(part_lse + s.to(tl.int64) * part_stride + place, mask=s < alive, other=float("-inf"))
    top = tl.max(lses, 0)
    if sinks is not None:
        sink = tl.load(sinks + h).to(tl.float32) * LOG2_E
        top = tl.maximum(top, sink)
    pivot = pivot_of(top)
    total = tl.sum(tl.exp2(lses - pivot), 0)
    if sinks is not None:
        total += tl.exp2(sink - pivot)

    e, acc = tl.arange(0, BE), tl.zeros([BE], tl.float32)
    for s0 in range(0, alive, BS):
        part = s0 + tl.arange(0, BS)
        rows = part.to(tl.int64) * part_stride + place
        weights = tl.exp2(tl.load(part_lse + rows, mask=part < alive, other=float("-inf")) - pivot)
        there = (part < alive)[:, None] & (e < E)[None, :]
        outputs = tl.load(part_out + rows[:, None] * E + e[None, :], mask=there, other=0.0)  # [BS, BE]
        acc += tl.sum(weights[:, None] * outputs, 0)
    total, log_sum = finished(top, total)
    tl.store(lse + place, log_sum * LN_2)
    tl.store(out + place * E + e, acc / total, mask=e < E)
