"""Count what torch does: operations, bytes moved by each operator, bytes kept for the backward pass, bytes held."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
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


class Held(TorchDispatchMode):
    """Follow the bytes of what operators return until it is freed; what they hold inside themselves is not seen."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.alive = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {x.data_ptr() for x in _storages((args, kwargs))}
        out = function(*args, **(kwargs or {}))
        for storage in _storages(out):
            if storage.data_ptr() not in given | self.alive:
                self.alive.add(storage.data_ptr())
                self.now += storage.nbytes()
                weakref.finalize(storage, self.free, storage.data_ptr(), storage.nbytes())
        self.most = max(self.most, self.now)
        return out

    def free(self, address, nbytes):
        self.alive.discard(address)
        self.now -= nbytes


def _storages(tree):
    return [x.untyped_storage() for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def peak(call):
    """Run a call and return the most bytes that the results of its operators took at a time."""
    with Held() as counter:
        call()
    return counter.most
