"""How the kernels address tensors: strides in units, and 64-bit offsets only where 32 bits do not reach.

Triton knows of a stride that it is a multiple of 16, or nothing. A stride of 40 or 72 elements would turn every load
into single elements; counted in units of 8 that the kernel multiplies again, it keeps the 16-byte loads.
"""

__all__ = ["UNIT", "copied_once", "is_wide", "strides", "unit_of", "with_unit_stride"]

UNIT = 8  # elements: 16 bytes of float16
MOST_ROWS = 512  # of a tile, which may reach beyond the last row
REACH = 2**31  # of a signed 32-bit offset


def strides(x, unit=1):
    """Return the strides of all axes but the last, in units; 0 where an axis has size 1."""
    return [0 if size == 1 else step // unit for size, step in _axes(x)]


def with_unit_stride(x):
    """Return a tensor whose last axis is contiguous, as the kernels read it: a copy only if it is not."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def copied_once(x):
    """Return `with_unit_stride` of a tensor without derivative; what repeats along an axis is copied once.

    So the gradient that a sum sends back, one number expanded, takes the memory of one row.
    """
    once = x[tuple(slice(1) if step == 0 else slice(None) for step in x.stride()[:-1])]
    return with_unit_stride(once).expand(x.shape)


def unit_of(*tensors):
    """Return UNIT if it divides every stride of these tensors (b, h, n, width), else 1; None stands for no tensor."""
    steps = (step for x in tensors if x is not None for size, step in _axes(x) if size != 1)
    return 1 if any(step % UNIT for step in steps) else UNIT


def is_wide(*tensors):
    """Tell whether an offset within one head of a tensor (b, h, n, width) may need more than 32 bits."""
    return any(
        (x.shape[2] + MOST_ROWS) * x.stride(2) + (x.shape[3] + MOST_ROWS) * x.stride(3) >= REACH
        for x in tensors
        if x is not None
    )


def _axes(x):
    return list(zip(x.shape, x.stride(), strict=True))[:-1]
