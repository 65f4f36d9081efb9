"""In which mode of torch a call runs: transformed, traced, autocast or plain."""

import contextlib

import torch
from torch._C import _are_functorch_transforms_active, _len_torch_dispatch_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode

__all__ = ["batched", "own_precision", "readable", "traced", "transformed", "undisturbed"]


def transformed(*tensors):
    """Tell whether a torch.func transform is active, or a tensor (or None) carries a forward-mode tangent."""
    if _are_functorch_transforms_active():
        return True
    if forward_ad._current_level < 0 or torch.compiler.is_compiling():
        return False
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def batched(x):
    """Tell whether autograd runs many gradients at once (`is_grads_batched`), and this is all of them."""
    return torch._C._functorch.is_legacy_batchedtensor(x)


def readable(*tensors):
    """Tell whether a decision may depend on the numbers: not while torch traces, transforms or only keeps shapes."""
    return not (traced(*tensors) or transformed(*tensors))


def traced(*tensors):
    """Tell whether torch builds a graph, or the tensors have a shape and no numbers."""
    if torch.compiler.is_compiling() or (_len_torch_dispatch_stack() and get_proxy_mode() is not None):
        return True
    return any(x.is_meta or type(x) is FakeTensor for x in tensors)


def own_precision(x):
    """Shut autocast out: it would compute the logits in half precision."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return contextlib.nullcontext()


def undisturbed():
    """Tell whether torch just computes: no graph is built, nothing transformed, watched or cast on the way."""
    return not (
        torch.compiler.is_compiling()
        or _len_torch_dispatch_stack()
        or _are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch.is_autocast_enabled("cpu")
    )
