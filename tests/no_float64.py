"""A device without float64, as MPS is, played on the CPU."""

import torch
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("mps")


class OnDevice(torch.Tensor):
    """A tensor that says it is on the device; what is made of it is there too."""

    device = DEVICE


class Device(TorchFunctionMode):
    """Put tensors on the device where that is asked for, and refuse them in float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        asked = any(map(_is_device, (*args, *kwargs.values())))
        if func is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        if asked:
            args = ["cpu" if _is_device(x) else x for x in args]
            kwargs = {name: "cpu" if _is_device(x) else x for name, x in kwargs.items()}
        found = func(*args, **kwargs)
        if asked:
            found = found.as_subclass(OnDevice)
        if isinstance(found, OnDevice) and found.dtype == torch.float64:
            raise TypeError(f"{func.__name__} makes float64 on {DEVICE}, which has none")
        return found


def _is_device(x):
    return isinstance(x, str | torch.device) and str(x) == "mps"
