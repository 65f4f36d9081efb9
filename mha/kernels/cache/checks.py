"""What decoding asks of its tensors, beyond what `mha.shapes` checks of every call."""

import torch

from mha import shapes
from mha.kernels import runtime
from mha.kernels.limits import check_tensors, lack

__all__ = ["check", "check_pages"]

PRECISIONS = "ieee", "tf32x3"


def check(q, k, v, sinks, precision):
    """Raise for what these kernels lack: other tensors, other precisions, gradients."""
    given = {"q": q, "k": k, "v": v, "sinks": sinks}
    check_tensors(**given)
    error = lack(q, k, v, sinks=sinks)
    if error is not None:
        raise error
    runtime.check_device(**given)
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}: expected one of {PRECISIONS}")
    for name, x in given.items():
        if torch.is_grad_enabled() and x is not None and x.requires_grad:
            raise ValueError(
                f"{name} requires a gradient: expected torch.no_grad(), or mha.kernels.attention, to decode"
            )


def check_pages(q, k_pages, v_pages, page_table, lengths):
    """Raise unless the pages are four axes each, alike, and every sample has a row of the table and a length."""
    given = {"q": q, "k_pages": k_pages, "v_pages": v_pages, "page_table": page_table, "lengths": lengths}
    check_tensors(**given)
    runtime.check_device(**given)
    for name, axes in {"q": "b h i d", "k_pages": "pages g page d", "v_pages": "pages g page e"}.items():
        if given[name].ndim != 4:
            raise ValueError(f"{name} has shape {tuple(given[name].shape)}: expected ({', '.join(axes.split())})")
    if v_pages.shape[:3] != k_pages.shape[:3]:
        raise ValueError(
            f"v_pages has shape {tuple(v_pages.shape)} and k_pages has {tuple(k_pages.shape)}: "
            "expected the same numbers of pages, heads and slots"
        )
    if k_pages.shape[3] != q.shape[3]:
        raise ValueError(f"k_pages has width {k_pages.shape[3]} and q has width {q.shape[3]}: expected equal widths")
    shapes.check_groups(q.shape[1], k_pages.shape[1], wording="k_pages has {} heads and q has {}")
    for name, axes in {"page_table": ("b", "p"), "lengths": ("b",)}.items():
        x = given[name]
        if x.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"{name} has dtype {x.dtype}: expected int32 or int64")
        if x.ndim != len(axes) or len(x) != len(q):
            raise ValueError(f"{name} has shape {tuple(x.shape)}: expected ({', '.join(axes)}) with b = {len(q)}")
