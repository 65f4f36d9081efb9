"""Count what torch does: operations, bytes moved by each operator, bytes kept for the backward pass."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


def flops(call):
    """Run a call and return the operations that torch's counter sees."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


class Traffic(TorchDispatchMode):
    """Add up the bytes of the tensors that operators read and write; a result in the memory of an input is a view."""

    def __init__(self):
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        read, written = (
            [x for x in group if isinstance(x, torch.Tensor)]
            for group in (args, out if isinstance(out, tuple) else [out])
        )
        if {x.data_ptr() for x in read}.isdisjoint(x.data_ptr() for x in written):
            self.nbytes += sum(x.nbytes for x in read + written)
        return out


def traffic(call):
    """Run a call and return the bytes that its operators read and write."""
    with Traffic() as counter:
        call()
    return counter.nbytes


def kept(call):
    """Run a call and return the bytes of the numbers that torch keeps for its backward pass, masks left out."""
    storages = {}

    def pack(x):
        if x.dtype != torch.bool:
            storages[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = call()
    del result
    return sum(storage.nbytes() for storage in storages.values())
