"""Count the bytes that interpreted kernels move and the tiles they multiply, instead of believing a formula."""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from triton.runtime.interpreter import InterpreterBuilder

from mha.kernels.runtime import interpreted


@dataclass
class Traffic:
    """Bytes loaded and stored so far, and products of two tiles."""

    loaded: int = 0
    stored: int = 0
    products: int = 0


@contextmanager
def counted_traffic():
    """Give a `Traffic` that counts what kernels do inside; numbers masked out are not moved.

    For the interpreter alone: on a device the counters of a profiler tell, caches included.
    """
    if not interpreted():
        raise ValueError("TRITON_INTERPRET is not set: expected a process that interprets; use a profiler on a device")
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    dot, traffic = InterpreterBuilder.create_dot, Traffic()

    def nbytes(pointers, mask):
        return int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8

    def counted_load(self, pointers, mask, *rest):
        traffic.loaded += nbytes(pointers, mask)
        return load(self, pointers, mask, *rest)

    def counted_store(self, pointers, value, mask, *rest):
        traffic.stored += nbytes(pointers, mask)
        return store(self, pointers, value, mask, *rest)

    def counted_dot(self, *operands):
        traffic.products += 1
        return dot(self, *operands)

    changed = {"create_masked_load": counted_load, "create_masked_store": counted_store, "create_dot": counted_dot}
    with mock.patch.multiple(InterpreterBuilder, **changed):
        yield traffic
