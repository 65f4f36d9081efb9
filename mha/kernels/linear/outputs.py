"""The second pass: every chunk reads the state that enters it, and its own tokens pair by pair."""

import torch
import triton
import triton.language as tl

from mha.kernels.language import head_at, load_rows, rows_at
from mha.kernels.layout import is_wide, strides, unit_of
from mha.kernels.linear.language import product, reach_of

__all__ = ["outputs"]


@triton.jit
def outputs_kernel(
    q, k, v, log_decay, every, out, q_strides, k_strides, v_strides, decay_strides, num_heads, n,
    D: tl.constexpr, E: tl.constexpr, C: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr, BACKWARD: tl.constexpr,
    TRANSPOSED: tl.constexpr, DECAYS: tl.constexpr, PRECISION: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One program: some columns of the outputs of one chunk, [C, BE]."""
    chunks = tl.cdiv(n, C)
    tile, line = tl.program_id(0) % tl.cdiv(E, BE), tl.program_id(0) // tl.cdiv(E, BE)
    chunk, head = line % chunks, line // chunks
    b, h = head // num_heads, head % num_heads
    q += head_at(b, h, q_strides[0], q_strides[1], UNIT)
    k += head_at(b, h, k_strides[0], k_strides[1], UNIT)
    v += head_at(b, h, v_strides[0], v_strides[1], UNIT)
    every += line.to(tl.int64) * (D * E)
    i = chunk * C + tl.arange(0, C)  # [C]
    e = tile * BE + tl.arange(0, BE)  # [BE]

    weights = tl.zeros([C, C], tl.float32)  # [C, C]
    sums = tl.zeros([C, BE], tl.float32)  # [C, BE]
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)  # [BD]
        q_tile = load_rows(q, i[:, None], d[None, :], q_strides[2], n, D, D % BD != 0, False, UNIT, WIDE)  # [C, BD]
        k_tile = load_rows(k, i[:, None], d[None, :], k_strides[2], n, D, D % BD != 0, False, UNIT, WIDE)  # [C, BD]
        place = e[None, :] * D + d[:, None] if TRANSPOSED else d[:, None] * E + e[None, :]
        state = tl.load(every + place, mask=(d < D)[:, None] & (e < E)[None, :], other=0.0)  # [BD, BE]
        weights += tl.dot(q_tile, tl.trans(k_tile), input_precision=PRECISION)
        sums += product(q_tile, state, PRECISION)

    row, column = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    seen = column >= row if BACKWARD else column <= row
    if DECAYS:
        log_decay += head_at(b, h, decay_strides[0], decay_strides[1], 1)
        reach, _ = reach_of(log_decay, i, decay_strides[2], n, BACKWARD, 1, WIDE)
        sums *= tl.exp(reach)[:, None]
        weights *= tl.exp(tl.where(seen, reach[:, None] - reach[None, :], 0.0))
    weights = tl.where(seen, weights, 0.0).to(every.dtype.element_ty)
    v_tile = load_rows(v, i[:, None], e[None, :], v_strides[2], n, E, E % BE != 0, False, UNIT, WIDE)  # [C, BE]
    sums += product(weights, v_tile, PRECISION)
    out += head.to(tl.int64) * n * E + rows_at(i[:, None], E, 1, WIDE) + e[None, :]
    tl.store(out, sums.to(out.dtype.element_ty), mask=(i < n)[:, None] & (e < E)[None, :])


def outputs(q, k, v, log_decay, every, *, size, precision, backward=False, transposed=False, dtype=None):
    """Return what the tokens of each chunk read: of the states of `states`, and of one another.

    `backward` reads from later tokens instead of earlier ones. `transposed` tells that the states are (e, d).
    """
    (batch, num_heads, n, d), e = q.shape, v.shape[-1]
    out = v.new_empty((batch, num_heads, n, e), dtype=dtype)
    programs = batch * num_heads * triton.cdiv(n, size.chunk) * triton.cdiv(e, size.e)
    decay = None if log_decay is None else log_decay[..., None]
    unit = unit_of(q, k, v)
    steps = [None if x is None else tuple(strides(x, by)) for x, by in ((q, unit), (k, unit), (v, unit), (decay, 1))]
    with torch.cuda.device_of(v):
        if programs:
            outputs_kernel[(programs,)](
                q, k, v, log_decay, every, out, *steps, num_heads, n,
                D=d, E=e, C=size.chunk, BD=size.d, BE=size.e, BACKWARD=backward, TRANSPOSED=transposed,
                DECAYS=log_decay is not None, PRECISION=precision, UNIT=unit, WIDE=is_wide(q, k, v, out, decay),
                **size.options,
            )  # fmt: skip
    return out
