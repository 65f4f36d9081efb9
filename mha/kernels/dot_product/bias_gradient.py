"""The gradient of the bias: of each of its entries, the sum over all pairs that it was added to.

    dbias = bias_gradient(d_out, q, k, v, out, lse, problem, d_lse=None)

One program owns one tile of the bias and walks every sample, head and tile of queries that reads it, so that nothing is
added atomically and no array larger than the bias is written. A bias over pairs has n² entries: no lists of tiles are
made for it, and a tile in which no pair is visible costs its mask alone. One that does not tell keys apart moves whole
rows of scores, of whose gradients the sum is known without them.
"""

import torch
import triton
import triton.language as tl

from mha.kernels import runtime
from mha.kernels.dot_product.backward import gradients
from mha.kernels.dot_product.row_terms import row_terms, sum_of_score_gradients
from mha.kernels.dot_product.scores import placed
from mha.kernels.language import head_at, load_rows
from mha.kernels.layout import copied_once, is_wide, strides, unit_of
from mha.kernels.tile_sizes import padded, tile_size

__all__ = ["bias_gradient", "bias_gradient_kernel"]


def bias_gradient(d_out, q, k, v, out, lse, problem, *, d_lse=None, size=None):
    """Return the gradient of `problem.bias`, in its shape (b | 1, h | 1, i | 1, j | 1) and its dtype, contiguous."""
    bias = problem.bias
    d_bias = torch.empty(bias.shape, dtype=bias.dtype, device=bias.device)
    (batch, num_heads, n_q, d), (num_kv_heads, n_k, e) = q.shape, v.shape[1:]
    if not lse.numel() * n_k:
        return d_bias.zero_()
    d_out = copied_once(d_out)
    of_rows = row_terms(d_out, out, lse, d_lse)
    if bias.shape[3] == 1:
        return sum_of_score_gradients(problem.sinks, lse, of_rows[1], d_lse)[..., None].sum_to_size(bias.shape).to(bias)
    unit = unit_of(q, k, v, d_out)
    size = size or tile_size("bias_gradient", runtime.architecture(q.device), max(d, e), itemsize=q.element_size())
    each_sample, each_head, each_row = (own > 1 for own in bias.shape[:3])
    tiles = (-(-n_q // size.bm) if each_row else 1) * -(-n_k // size.bn)
    rule, added = problem.rules()
    bias_gradient_kernel[(tiles * bias.shape[0] * bias.shape[1],)](
        q, k, v, d_out, *of_rows, d_bias,
        *(step for x in (q, k, v, d_out) for step in strides(x, unit)),
        *problem.bias_arguments(), problem.start, int(len(problem.start) > 1),
        *problem.base_2(), *problem.dropout_arguments(), problem.tables, problem.added_tables,
        batch, num_heads, num_heads // num_kv_heads, n_q, n_k,
        rule=rule, added=added, D=d, E=e, BD=padded(d), BE=padded(e), BM=size.bm, BN=size.bn,
        EACH_SAMPLE=each_sample, EACH_HEAD=each_head, EACH_ROW=each_row,
        PRECISION=problem.precision, UNIT=unit, WIDE=is_wide(q, k, v, d_out, bias), **size.options(),
    )  # fmt: skip
    return d_bias


@triton.jit(do_not_specialize=["n_q", "n_k"])
def bias_gradient_kernel(
    q, k, v, d_out, shift, delta, d_bias,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, d_out_b, d_out_h, d_out_n,
    bias, bias_b, bias_h, bias_i, bias_j, start, start_b,
    scale, cap, seed, p_drop, p, added_p, batch, num_heads, group, n_q, n_k,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, EACH_SAMPLE: tl.constexpr, EACH_HEAD: tl.constexpr, EACH_ROW: tl.constexpr,
    PRECISION: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(n_k, BN)
    column, program = tl.program_id(0) % columns, tl.program_id(0) // columns
    row, row_end, program = own_part(program, tl.cdiv(n_q, BM), EACH_ROW)
    own_h, h_end, program = own_part(program, num_heads, EACH_HEAD)
    own_b, b_end, program = own_part(program, batch, EACH_SAMPLE)
    acc = tl.zeros([BM, BN], tl.float32)
    for b in range(own_b, b_end):
        for h in range(own_h, h_end):
            how = (
                b, h, tl.load(start + b * start_b), n_q, n_k, scale, cap,
                bias + head_at(b, h, bias_b, bias_h, 1), bias_i, bias_j, p, added_p,
            )  # fmt: skip
            rows_before = tl.cast(b * num_heads + h, tl.int64) * n_q
            of_rows = (
                q + head_at(b, h, q_b, q_h, UNIT), q_n, d_out + head_at(b, h, d_out_b, d_out_h, UNIT), d_out_n,
                shift + rows_before, delta + rows_before,
            )  # fmt: skip
            of_keys = (k + head_at(b, h // group, k_b, k_h, UNIT), k_n, v + head_at(b, h // group, v_b, v_h, UNIT), v_n)
            for m in range(row, row_end):
                acc = add_tile(acc, m * BM, column * BN, of_rows, of_keys, seed, p_drop, num_heads, how, rule, added,
                               D, E, BD, BE, PRECISION, UNIT, WIDE)  # fmt: skip

    i, rows, j, place = tl.arange(0, BM)[:, None], 1, column * BN + tl.arange(0, BN)[None, :], 0
    if EACH_ROW:
        i, rows = row * BM + i, n_q
    else:
        acc = tl.sum(acc, 0, keep_dims=True) + tl.zeros_like(acc)
    if EACH_SAMPLE:
        place = own_b
    if EACH_HEAD:
        place = place * num_heads + own_h
    at = d_bias + (tl.cast(place, tl.int64) * rows + i) * n_k + j
    tl.store(at, acc.to(d_bias.dtype.element_ty), mask=(i < rows) & (j < n_k))


@triton.jit
def own_part(program, size, EACH: tl.constexpr):
    """Return from where to where a program walks an axis, and its number among those that walk the same part."""
    begin, end, rest = 0, size, program
    if EACH:
        begin, end, rest = program % size, program % size + 1, program // size
    return begin, end, rest


@triton.jit
def add_tile(
    acc, row, column, of_rows, of_keys, seed, p_drop, num_heads, how,
    rule: tl.constexpr, added: tl.constexpr, D: tl.constexpr, E: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
    PRECISION: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return acc [BM, BN] plus the gradients of the scores of the tile at (row, column)."""
    q, q_n, d_out, d_out_n, shift, delta = of_rows
    k, k_n, v, v_n = of_keys
    _, _, _, n_q, n_k, _, _, _, _, _, _, _ = how
    d, e = tl.arange(0, BD), tl.arange(0, BE)
    i, j = row + tl.arange(0, acc.shape[0]), column + tl.arange(0, acc.shape[1])
    see = placed(tl.zeros_like(acc), i[:, None], j[None, :], how, rule, added, True, WIDE) != float("-inf")
    if tl.max(see.to(tl.int32)) > 0:
        queries = load_rows(q, i[:, None], d[None, :], q_n, n_q, D, D != BD, False, UNIT, WIDE)  # [BM, BD]
        d_rows = load_rows(d_out, i[:, None], e[None, :], d_out_n, n_q, E, E != BE, False, UNIT, WIDE)  # [BM, BE]
        keys = load_rows(k, j[None, :], d[:, None], k_n, n_k, D, D != BD, False, UNIT, WIDE)  # [BD, BN]
        values = load_rows(v, j[None, :], e[:, None], v_n, n_k, E, E != BE, False, UNIT, WIDE)  # [BE, BN]
        own_shift = tl.load(shift + i, mask=i < n_q, other=0.0)[:, None]
        own_delta = tl.load(delta + i, mask=i < n_q, other=0.0)[:, None]
        products = tl.dot(queries, keys, input_precision=PRECISION)
        d_weights = tl.dot(d_rows, values, input_precision=PRECISION)
        _weights, d_scores, _d_products = gradients(products, d_weights, own_shift, own_delta, i[:, None], j[None, :],
                                                    seed, p_drop, num_heads, how, rule, added, True, WIDE)  # fmt: skip
        acc += d_scores
    return acc
