"""What the kernels lack, each in one sentence, whether a call is refused for it or another floor takes the call."""

import torch
from torch._C import _are_functorch_transforms_active
from torch.autograd import forward_ad

__all__ = ["DTYPES", "OLDEST", "WIDEST", "check_tensors", "lack"]

DTYPES = {torch.float16, torch.bfloat16, torch.float32}
WIDEST = 256
OLDEST = 75  # of NVIDIA's architectures, what today's Triton compiles for


def check_tensors(**arrays):
    """Raise unless all of these are dense tensors; None stands for one that was not given."""
    for name, x in arrays.items():
        if x is None:
            continue
        if not isinstance(x, torch.Tensor):
            kind = "NumPy array" if type(x).__module__ == "numpy" else type(x).__name__
            hint = "; mha.reference takes arrays" if kind == "NumPy array" else ""
            raise TypeError(f"{name} is a {kind}: expected a torch tensor{hint}")
        if x.layout is not torch.strided:
            raise TypeError(f"{name} has layout {x.layout}: expected a dense tensor; {name}.to_dense() converts")


def lack(q, k, v, *, widest=WIDEST, **options):
    """Return the error that these tensors would meet for what the kernels lack, or None; `widest` may be None."""
    tensors = {"q": q, "k": k, "v": v} | {name: x for name, x in options.items() if x is not None}
    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            return TypeError(f"{name} is a {type(x).__name__}: expected a torch tensor")
    if _are_functorch_transforms_active() or _has_tangent(*tensors.values()):
        return ValueError("mha.kernels has no forward mode and serves no transform of torch.func: mha.nn does both")
    for name, x in tensors.items():
        if x.dtype not in DTYPES and (name in ("q", "k", "v") or x.dtype is torch.float64):
            return TypeError(f"{name} has dtype {x.dtype}: kernels take float16, bfloat16 and float32; mha.nn takes it")
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            return TypeError(
                f"{name} has dtype {x.dtype} and q has dtype {q.dtype}: expected one; {name}.to(q.dtype) converts"
            )
    for name, x in (("q", q), ("v", v)):
        if widest is not None and x.shape[-1] > widest:
            return ValueError(f"{name} has width {x.shape[-1]}: kernels take up to {widest}; mha.nn takes any")
    return _too_foreign(q.device) if q.is_cuda else None


def _too_foreign(device):
    from mha.kernels.runtime import architecture  # which imports triton

    if torch.version.hip:
        return ValueError("this torch is built for ROCm: the kernels know NVIDIA's devices; mha.nn takes any")
    if architecture(device) < OLDEST:
        have, need = (".".join(map(str, divmod(number, 10))) for number in (architecture(device), OLDEST))
        return ValueError(f"{device} has compute capability {have}: kernels need {need} or newer; mha.nn takes any")
    return None


def _has_tangent(*tensors):
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)
