"""The tables that masks read, NumPy arrays or tensors: kept, compared and printed by what they hold."""

import sys

import numpy as np

LONGEST_REPR = 64  # a table with more entries is named by its shape


def frozen(table):
    """Return the table; an array can no longer be written to."""
    if isinstance(table, np.ndarray):
        table.setflags(write=False)
    return table


def on_host(table):
    """Whether the numbers can be read now: not on a device, where reading would wait, and not while torch traces."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        return False
    return isinstance(table, np.ndarray) or table.device.type == "cpu"


def in_one_library(*tables):
    """Return the tables as they are, or all as tensors if one of them is."""
    tensor = next((table for table in tables if not isinstance(table, np.ndarray)), None)
    return tables if tensor is None else [tensor.new_tensor(x) if isinstance(x, np.ndarray) else x for x in tables]


def is_one(start):
    """Tell whether a start is one integer for all samples, symbolic where torch traces."""
    return isinstance(start, int) or not hasattr(start, "shape")


def fingerprint(table):
    """Return what two tables of equal content share, whatever library holds them and in how many bits."""
    table = np.asarray(table.cpu() if hasattr(table, "cpu") else table)
    return table.shape, table.dtype.kind, table.astype(bool if table.dtype == bool else np.int64).tobytes()


def table_text(table):
    """Return the entries as Python writes them, or the shape of a table that is long or empty."""
    size = int(np.prod(table.shape))
    return str(table.tolist()) if 0 < size <= LONGEST_REPR else f"<{' × '.join(map(str, table.shape))}>"


def common_size(sizes):
    """Return the size to which axes of size 1 and of one other size broadcast."""
    return next((size for size in sizes if size != 1), 1)


def in_numpy(table):
    """Return a table, a tensor or an integer as a NumPy array on the host."""
    return np.asarray(table.cpu() if hasattr(table, "cpu") else table)
