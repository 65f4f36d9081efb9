"""The first pass: the state on its way through the chunks of a head."""

import torch
import triton
import triton.language as tl

from mha.kernels.language import head_at, load_rows
from mha.kernels.layout import is_wide, strides, unit_of
from mha.kernels.linear.language import product, reach_of

__all__ = ["states"]


@triton.jit
def states_kernel(
    k, v, log_decay, first, every, last, k_strides, v_strides, decay_strides, num_heads, n,
    D: tl.constexpr, E: tl.constexpr, C: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr, BACKWARD: tl.constexpr,
    DECAYS: tl.constexpr, PRECISION: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One program: a tile [BD, BE] of the state of one head, from chunk to chunk."""
    tiles: tl.constexpr = tl.cdiv(D, BD) * tl.cdiv(E, BE)
    head, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    b, h, chunks = head // num_heads, head % num_heads, tl.cdiv(n, C)
    k += head_at(b, h, k_strides[0], k_strides[1], UNIT)
    v += head_at(b, h, v_strides[0], v_strides[1], UNIT)
    if DECAYS:
        log_decay += head_at(b, h, decay_strides[0], decay_strides[1], 1)
    d = tile // tl.cdiv(E, BE) * BD + tl.arange(0, BD)  # [BD]
    e = tile % tl.cdiv(E, BE) * BE + tl.arange(0, BE)  # [BE]
    place = d[:, None] * E + e[None, :]
    inside = (d < D)[:, None] & (e < E)[None, :]
    one = head.to(tl.int64) * (D * E)
    every += one * chunks

    state = tl.load(first + one + place, mask=inside, other=0.0)  # [BD, BE]
    for step in range(chunks):
        chunk = chunks - 1 - step if BACKWARD else step
        i = chunk * C + tl.arange(0, C)  # [C]
        k_tile = load_rows(k, i[:, None], d[None, :], k_strides[2], n, D, D % BD != 0, False, UNIT, WIDE)  # [C, BD]
        v_tile = load_rows(v, i[:, None], e[None, :], v_strides[2], n, E, E % BE != 0, False, UNIT, WIDE)  # [C, BE]
        tl.store(every + tl.cast(chunk, tl.int64) * (D * E) + place, state.to(every.dtype.element_ty), mask=inside)
        if DECAYS:
            reach, whole = reach_of(log_decay, i, decay_strides[2], n, BACKWARD, 1, WIDE)
            k_tile = (k_tile * tl.exp(whole - reach)[:, None]).to(v_tile.dtype)
            state *= tl.exp(whole)
        state += product(tl.trans(k_tile), v_tile, PRECISION)
    tl.store(last + one + place, state, mask=inside)


def states(k, v, log_decay, first, *, size, precision, backward=False):
    """Return the state with which each chunk begins, (b, h, chunks, d, e), and the last one, from the first.

    `backward` goes from the last chunk to the first: a chunk begins at its end. With q and the output's gradient for
    k and v these are the gradients of the states.
    """
    (batch, num_heads, n, d), e = k.shape, v.shape[-1]
    chunks = triton.cdiv(n, size.chunk)
    dtype = torch.bfloat16 if k.dtype is torch.bfloat16 else torch.float32
    every = k.new_empty((batch, num_heads, chunks, d, e), dtype=dtype)
    last = torch.empty_like(first)
    programs = batch * num_heads * triton.cdiv(d, size.d) * triton.cdiv(e, size.e)
    decay = None if log_decay is None else log_decay[..., None]
    unit = unit_of(k, v)
    steps = [None if x is None else tuple(strides(x, by)) for x, by in ((k, unit), (v, unit), (decay, 1))]
    with torch.cuda.device_of(k):
        if programs:
            states_kernel[(programs,)](
                k, v, log_decay, first, every, last, *steps, num_heads, n,
                D=d, E=e, C=size.chunk, BD=size.d, BE=size.e, BACKWARD=backward, DECAYS=log_decay is not None,
                PRECISION=precision, UNIT=unit, WIDE=is_wide(k, v, decay),
                **size.options,
            )  # fmt: skip
    return every, last
