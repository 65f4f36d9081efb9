"""What the backward kernels need to know of each row of the output, and the gradient of the sinks, made of it."""

import torch
import triton
import triton.language as tl

from mha.kernels.language import LOG2_E, head_at, load_rows
from mha.kernels.layout import strides, unit_of
from mha.kernels.tile_sizes import padded

__all__ = ["row_terms", "row_terms_kernel", "sink_gradient", "sum_of_score_gradients"]

NUMBERS = 16384  # of the output that one program reads


def row_terms(d_out, out, lse, d_lse):
    """Return what the gradients of a row's scores need, float32 (b, h, i): see the kernel."""
    batch, num_heads, n_q, e = out.shape
    shift, delta = torch.empty_like(lse), torch.empty_like(lse)
    if lse.numel():
        unit, block = unit_of(out, d_out), NUMBERS // padded(e)
        row_terms_kernel[(-(-n_q // block) * batch * num_heads,)](
            out, d_out, lse, None if d_lse is None else d_lse.contiguous(), shift, delta,
            *strides(out, unit), *strides(d_out, unit), num_heads, n_q, E=e, BE=padded(e), BM=block, UNIT=unit,
            enable_fp_fusion=True,
        )  # fmt: skip
    return shift, delta


def sink_gradient(sinks, lse, delta):
    """Return −Σ p_sink · delta over a head's rows: the gradient of its sink."""
    return -_times_sink(delta, sinks, lse).sum((0, 2)).to(sinks.dtype)


def sum_of_score_gradients(sinks, lse, delta, d_lse):
    """Return the sum of the gradients of each row's scores: p_sink · delta + d_lse, 0 but for a sink and for lse."""
    total = torch.zeros_like(delta) if sinks is None else _times_sink(delta, sinks, lse)
    return total if d_lse is None else torch.where(lse == -torch.inf, 0.0, total + d_lse * LOG2_E.value)


def _times_sink(delta, sinks, lse):
    """Return delta times the weight of the sink; a row without key and sink has lse −∞."""
    return torch.where(lse == -torch.inf, 0.0, torch.exp2(sinks.float()[:, None] * LOG2_E.value - lse) * delta)


@triton.jit(do_not_specialize=["n_q"])
def row_terms_kernel(
    out, d_out, lse, d_lse, shift, delta,
    out_b, out_h, out_n, d_out_b, d_out_h, d_out_n, num_heads, n_q,
    E: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Write of each row delta, the mean of its weights' gradients, and shift, what its scores in base 2 lose.

    exp2(score − shift) is the weight: 0 in a row that sees nothing, NaN in one whose lse is +∞ or NaN, or whose
    gradient is not finite. So the other kernels may clean what they multiply by zero weights, and lose no NaN.
    delta is made of the output as it was rounded: up to half an ulp of each entry, times d_out, is its error.
    """
    head = tl.program_id(0) // tl.cdiv(n_q, BM)
    i, e = tl.program_id(0) % tl.cdiv(n_q, BM) * BM + tl.arange(0, BM), tl.arange(0, BE)
    b, h = head // num_heads, head % num_heads
    out += head_at(b, h, out_b, out_h, UNIT)
    d_out += head_at(b, h, d_out_b, d_out_h, UNIT)
    rows = load_rows(out, i[:, None], e[None, :], out_n, n_q, E, E != BE, False, UNIT, True).to(tl.float32)  # [BM, BE]
    d_rows = load_rows(d_out, i[:, None], e[None, :], d_out_n, n_q, E, E != BE, False, UNIT, True).to(tl.float32)
    row, inside = head.to(tl.int64) * n_q + i, i < n_q
    mean = tl.sum(tl.where(rows == 0.0, 0.0, rows * d_rows), 1)
    if d_lse is not None:
        mean -= tl.load(d_lse + row, mask=inside, other=0.0) * LOG2_E  # lse counts in base 2
    tl.store(delta + row, mean, mask=inside)
    own = tl.load(lse + row, mask=inside, other=0.0)
    own = tl.where(own == float("inf"), float("nan"), tl.where(own == -float("inf"), float("inf"), own))
    tl.store(shift + row, own + tl.sum(d_rows * 0.0, 1), mask=inside)
