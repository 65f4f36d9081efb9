"""Decoding as one operator of torch: how many parts, which tiles, and the launches."""

import torch
import triton

from mha.kernels import runtime
from mha.kernels.cache.split import merge_kernel, split_kernel
from mha.kernels.layout import is_wide, strides, unit_of
from mha.kernels.tile_sizes import padded, tile_size

__all__ = ["decode"]

MOST_PARTS = 64
PROGRAMS = 4  # of the first kernel, that run on one processor of the device at a time
TILES = 2  # that a part holds at least: a shorter one is not worth the merging
PROCESSORS = 4  # what the CPU counts as


@torch.library.custom_op("mha::decode", mutates_args=())
def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sinks: "torch.Tensor | None",
    page_table: "torch.Tensor | None",
    lengths: "torch.Tensor | None",
    starts: "torch.Tensor | None",
    start: int | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
    precision: str,
    parts: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return output and lse; with a page table k and v are pages, (pages, g, page, width).

    `starts` holds one position for each sample, `start` is one for all; without both the last query stands at the
    sample's last key. `parts` is for tests: by default the sizes and the device decide.
    """
    out, lse = _outputs(q, v)
    if lse.numel() == 0:
        return out, lse
    batch, num_heads, n_q, d = q.shape
    num_groups, n_k, e = k.shape[1], k.shape[2], v.shape[-1]
    page: int | None = None
    table_steps: tuple[int, ...] = 0, 0
    if page_table is not None:
        page, table_steps, n_k = n_k, page_table.stride(), n_k * page_table.shape[1]
    group = num_heads // num_groups
    sinks, lengths, starts = (x if x is None else x.contiguous() for x in (sinks, lengths, starts))
    size = _tile_size(q, group * n_q, max(d, e))
    programs = batch * num_groups * triton.cdiv(group * n_q, size.bm)
    if parts is None:
        reach = n_k if left is None or right is None else min(n_k, left + right + n_q)
        parts = _number_of_parts(programs, triton.cdiv(reach, size.bn), q.device)
    part_out, part_lse = (out, lse) if parts == 1 else _outputs(q, v, parts)
    unit = unit_of(q, k, v)
    steps = [step for x in (q, k, v) for step in (*strides(x, unit), x.stride(-1))]
    where = lengths, starts, n_q, n_k, start, left, right, parts, lse.numel()
    with torch.cuda.device_of(q):
        split_kernel[(programs * parts,)](
            q, k, v, part_out, part_lse, sinks, page_table, *where,
            *steps, *table_steps, num_groups, group, scale, softcap,
            D=d, E=e, BD=padded(d), BE=padded(e), BM=size.bm, BN=size.bn, PAGE=page, UNIT=unit, WIDE=is_wide(k, v),
            WHOLE=parts == 1, UNEVEN=n_q > 1 and (left is not None or right is not None), PRECISION=precision,
            **size.options(),
        )  # fmt: skip
        if parts > 1:
            merge_kernel[(lse.numel(),)](
                part_out, part_lse, out, lse, sinks, *where, num_heads,
                E=e, BE=padded(e), BN=size.bn, MOST=MOST_PARTS, BS=16, enable_fp_fusion=True,
            )  # fmt: skip
    return out, lse


@decode.register_fake
def _(q, k, v, *_):
    return _outputs(q, v)


def _outputs(q, v, *parts):
    """Return memory for output and lse, or for those of each part."""
    dtype = torch.float32 if parts else q.dtype
    out = q.new_empty(*parts, *q.shape[:3], v.shape[-1], dtype=dtype)
    return out, q.new_empty(*parts, *q.shape[:3], dtype=torch.float32)


def _tile_size(q, rows, width):
    """Return the TileSize, with queries' rows enough for a group if they fit, so that keys are read once."""
    architecture = runtime.architecture(q.device)
    size = tile_size("decode", architecture, width, itemsize=q.element_size())
    if q.element_size() == 4:
        return size._replace(warps=8)  # products without tensor cores, and their operands, are in registers
    most = 64 if architecture >= 80 and width <= 128 else size.bm
    bm = max(size.bm, min(triton.next_power_of_2(rows), most))
    return size if bm == size.bm else size._replace(bm=bm, bn=min(size.bn, 64), warps=8)


def _number_of_parts(programs, tiles, device):
    """Return in how many parts the keys of a sample go: enough to fill the device, none shorter than TILES."""
    on_device = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else PROCESSORS
    return max(1, min(PROGRAMS * on_device // programs, tiles // TILES, MOST_PARTS))
