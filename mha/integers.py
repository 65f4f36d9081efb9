"""What counts as an integer: a Python or NumPy one, an array or a tensor of them; never a truth value or a float."""

import operator

import numpy as np

__all__ = ["count", "integer", "integers", "is_integral", "own"]


def integer(name, value, expected="an integer"):
    """Return a value as an int that 64 bits hold, or raise."""
    if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
        raise TypeError(f"{name} is {value}: expected {expected}")
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: expected {expected}") from None
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} is {value}: expected {expected} of 64 bits")
    return value


def count(name, value, least=0):
    """Return a value as an int of at least `least`, or raise."""
    value = integer(name, value)
    if value < least:
        raise ValueError(f"{name} is {value}: expected at least {least}")
    return value


def integers(name, values, expected):
    """Return the integers as an array of its own, flat and of 64 bits; or raise."""
    array = own(name, values, expected)
    if isinstance(values, (list, tuple)) and array.size == 0:
        array = array.astype(np.int64)
    if not is_integral(array):
        raise TypeError(f"{name} has dtype {array.dtype}: expected {expected}")
    return array.reshape(-1).astype(np.int64) if isinstance(array, np.ndarray) else array.reshape(-1).long()


def own(name, values, expected):
    """Return an array that nobody else writes to, a tensor if `values` is one; or raise if rows differ in length."""
    if hasattr(values, "detach"):
        if values.is_sparse:
            raise TypeError(f"{name} is a sparse tensor: expected a dense one; to_dense() converts")
        return values.detach().clone()
    try:
        return np.array(values)
    except ValueError:
        raise ValueError(f"{name} is ragged: expected {expected}") from None


def is_integral(array):
    """Tell whether an array or a tensor holds integers."""
    if isinstance(array, np.ndarray):
        return array.dtype.kind in "iu"
    return not (array.is_floating_point() or array.is_complex() or str(array.dtype) == "torch.bool")
